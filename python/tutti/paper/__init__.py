"""The papers: their models, their claims, and what comes of these here."""
