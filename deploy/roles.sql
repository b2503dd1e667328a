-- The roles of PostgreSQL, as `manage.py roles --sql --database statecore` writes them. For a superuser; repeatable.
DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'statecore_owner') THEN CREATE ROLE "statecore_owner" LOGIN; END IF; END $$;
ALTER ROLE "statecore_owner" NOSUPERUSER CREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'statecore_web') THEN CREATE ROLE "statecore_web" LOGIN; END IF; END $$;
ALTER ROLE "statecore_web" NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'statecore_executor') THEN CREATE ROLE "statecore_executor" LOGIN; END IF; END $$;
ALTER ROLE "statecore_executor" NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'statecore_reader') THEN CREATE ROLE "statecore_reader" LOGIN; END IF; END $$;
ALTER ROLE "statecore_reader" NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
ALTER ROLE "statecore_web" SET lock_timeout = '10s';
ALTER ROLE "statecore_executor" SET lock_timeout = '10s';
ALTER DATABASE "statecore" OWNER TO "statecore_owner";
REVOKE ALL ON DATABASE "statecore" FROM PUBLIC, "statecore_web", "statecore_executor", "statecore_reader";
GRANT CONNECT ON DATABASE "statecore" TO "statecore_web", "statecore_executor", "statecore_reader";
CREATE SCHEMA IF NOT EXISTS "public";
ALTER SCHEMA "public" OWNER TO "statecore_owner";
REVOKE ALL ON SCHEMA "public" FROM PUBLIC, "statecore_web", "statecore_executor", "statecore_reader";
GRANT USAGE ON SCHEMA "public" TO "statecore_web", "statecore_executor", "statecore_reader";
DO $$ DECLARE command text; BEGIN
    FOR command IN
        SELECT format('ALTER TABLE %s OWNER TO "statecore_owner"', c.oid::regclass) FROM pg_class AS c
        WHERE c.relnamespace = '"public"'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
        UNION ALL SELECT format('ALTER FUNCTION %s OWNER TO "statecore_owner"', f.oid::regprocedure) FROM pg_proc AS f
        WHERE f.pronamespace = '"public"'::regnamespace
        AND NOT EXISTS (SELECT 1 FROM pg_depend AS d WHERE d.objid = f.oid AND d.deptype = 'e')
    LOOP EXECUTE command; END LOOP; END $$;
