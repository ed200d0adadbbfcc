"""Why a gang found no place, and what its candidate domains scored."""
