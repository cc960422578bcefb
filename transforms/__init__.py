"""Apache Beam transforms of Patchbeam: thin, each calls the library below."""
