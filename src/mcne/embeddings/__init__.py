"""What a trained method leaves behind, and everything that can be asked of it. Needs no torch."""

from mcne.embeddings.answers import Ranking as Ranking
from mcne.embeddings.artifact import BehaviorSpace as BehaviorSpace
from mcne.embeddings.artifact import ConditionalEmbeddings as ConditionalEmbeddings
from mcne.embeddings.explanation import Explanation as Explanation
from mcne.embeddings.trunk import Attention as Attention
from mcne.embeddings.trunk import Trunk as Trunk
