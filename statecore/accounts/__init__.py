"""Records changes of accounts in the account journal, however they are made."""
