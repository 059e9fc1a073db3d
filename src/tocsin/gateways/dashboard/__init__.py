"""The dashboard: a web page that shows the bus and acts on it, for people who are signed in.

`gateway` signs people in and serves the page, `assets` are its files, `survey` looks at the state, `pulse` does so once
for everybody who watches, and `live` tells them. The page itself is in `page/`: plain ES modules, no bundler.
"""
