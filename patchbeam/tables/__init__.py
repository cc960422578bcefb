"""Tables: features of vector files and CSV become Examples, and Examples become tables again."""
