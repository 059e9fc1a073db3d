"""The dashboard: a web page that shows and controls the bus, for signed-in users.

`gateway` signs users in and serves the page, `assets` are its files, `summary` counts the state, `live_updates` does so
once for all open dashboards, and `live` sends the updates. The page is in `page/`: plain ES modules, no bundler.
"""
