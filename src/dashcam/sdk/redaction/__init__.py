"""Taking secrets out of a record where it is built, before anything reaches a disk or a socket."""

from dashcam.sdk.redaction.redactor import Redactor as Redactor
from dashcam.sdk.redaction.rules import Redaction as Redaction
