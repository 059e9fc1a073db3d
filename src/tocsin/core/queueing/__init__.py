"""Order of waiting messages: mailboxes, aging and importance decay."""
