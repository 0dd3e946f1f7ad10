"""Messages: records and content, pairing of tool calls, transcripts, vendor formats."""
