"""Any table, file or engine becomes batches of clean columns."""
