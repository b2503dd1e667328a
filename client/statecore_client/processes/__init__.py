"""Running commands so that no process outlives the program that started it; also used by the server."""
