# SPDX-License-Identifier: Apache-2.0
"""What `llamalloc report` shows: a file is summed up once, then written as text, JSON or HTML.

    profile.Profile --> profile_summary --.
                                           >--> text | page (with pictures) | JSON
    statistics JSON --> stats_summary   --'

A summary computes and prints nothing; an output prints and computes nothing.
"""

import logging

# It would warn of a home that it cannot write to, as that of `nobody`.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
