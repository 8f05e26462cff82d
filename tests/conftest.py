"""What every test may rely on."""

import signal

# A shell starts what it puts into the background with SIGINT ignored, and children inherit that: the tests of Ctrl-C
# would wait for a signal that nobody hears.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Under nohup SIGHUP is ignored, and children inherit that too.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
