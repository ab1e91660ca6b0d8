"""Ours and the peers, side by side, in one run. Figures are ratios: machines differ, ratios less so."""
