"""Why a gang found no place, and how its candidate domains scored."""
