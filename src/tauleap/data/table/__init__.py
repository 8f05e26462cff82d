"""Tables: delimited text (.csv, .tsv, .data), .parquet and pandas frames."""
