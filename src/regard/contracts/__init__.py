"""The types and promises that packages hand each other; torch is all they need."""

from regard.contracts.attention import (
    Align,
    Aligned,
    Attended,
    Cache,
    Look,
    Lowered,
    LoweredSquare,
    LoweredSum,
    Memory,
    Score,
)
from regard.contracts.batch import Batch
from regard.contracts.entry import Entry
from regard.contracts.execution import has_hooks, mode_reasons, unsupported_reasons
from regard.contracts.files import check_free, make_folder, replacing, write_atomic
from regard.contracts.inspection import (
    AlignmentPanel,
    AttentionSite,
    Axis,
    ClassesPanel,
    Inspection,
    ModelCall,
    NextTokenPanel,
    Response,
    StatePanel,
    StatePart,
    Title,
)
from regard.contracts.language import LanguageModel, Read, Segment, StepFunction
from regard.contracts.mask import Grid, Mask
from regard.contracts.model import Model, Readout, Step
from regard.contracts.names import check_name, nearest
from regard.contracts.nest import choose_rows, leaves, map_tensors, select_rows
from regard.contracts.packed import Packed
from regard.contracts.predictor import Around, Capabilities, Predictor, StreamingPredictor
from regard.contracts.runtime import active_recorders, device_of, evaluating, recording, unwrap
from regard.contracts.sentence import Classified, Labelled, SentenceModel
from regard.contracts.sequences import Sequences
from regard.contracts.tokens import BOS, EOS, PAD, SPECIAL_TOKENS, UNK
from regard.contracts.version import VERSION

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "SPECIAL_TOKENS",
    "UNK",
    "VERSION",
    "Align",
    "Aligned",
    "AlignmentPanel",
    "Around",
    "Attended",
    "AttentionSite",
    "Axis",
    "Batch",
    "Cache",
    "Capabilities",
    "ClassesPanel",
    "Classified",
    "Entry",
    "Grid",
    "Inspection",
    "Labelled",
    "LanguageModel",
    "Look",
    "Lowered",
    "LoweredSquare",
    "LoweredSum",
    "Mask",
    "Memory",
    "Model",
    "ModelCall",
    "NextTokenPanel",
    "Packed",
    "Predictor",
    "Read",
    "Readout",
    "Response",
    "Score",
    "Segment",
    "SentenceModel",
    "Sequences",
    "StatePanel",
    "StatePart",
    "Step",
    "StepFunction",
    "StreamingPredictor",
    "Title",
    "active_recorders",
    "check_free",
    "check_name",
    "choose_rows",
    "device_of",
    "evaluating",
    "has_hooks",
    "leaves",
    "make_folder",
    "map_tensors",
    "mode_reasons",
    "nearest",
    "recording",
    "replacing",
    "select_rows",
    "unsupported_reasons",
    "unwrap",
    "write_atomic",
]
