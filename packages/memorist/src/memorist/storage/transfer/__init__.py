"""Operations on whole tenants and databases: export, import, erase and verify."""
