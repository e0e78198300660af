"""The main file for spark-submit: `spark-submit --py-files rdmascope_fleet.zip main.py export …`."""

import sys

from rdmascope_fleet.__main__ import main

sys.exit(main())
