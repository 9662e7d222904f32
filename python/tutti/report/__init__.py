"""What commands leave behind: tables, pictures, files."""
