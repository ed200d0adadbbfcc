"""The plugin elasticquota: Koordinator's quota trees."""
