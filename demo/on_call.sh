#!/bin/sh
# The agent on call: `tocsin work` runs this for each message. The payload is standard input, the output is the answer.
printf '{"text": "I read your message of %d bytes, %s: I look at it now"}' "$(wc -c)" "$TOCSIN_SENDER"
