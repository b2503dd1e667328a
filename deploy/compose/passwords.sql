-- Sets the passwords of the roles to those in the environment, after deploy/roles.sql.
\getenv owner OWNER_PASSWORD
\getenv web WEB_PASSWORD
\getenv executor EXECUTOR_PASSWORD
ALTER ROLE statecore_owner PASSWORD :'owner';
ALTER ROLE statecore_web PASSWORD :'web';
ALTER ROLE statecore_executor PASSWORD :'executor';
