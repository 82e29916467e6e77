"""Says where it is and who, and sleeps: python asleep.py WORDS."""

import json
import os
import sys
import time
from pathlib import Path

about = {
    "process": os.getpid(),
    "words": sys.argv[1:],
    "folder": str(Path.cwd()),
    "said": os.environ.get("SAID"),
    "torch": "torch" in sys.modules,
}
sys.stdout.write(json.dumps(about) + "\n")
sys.stdout.flush()
time.sleep(600)
