"""Tables of categories: .csv, .tsv, .parquet and pandas frames."""
