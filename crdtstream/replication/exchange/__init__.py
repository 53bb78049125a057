"""All links of one region, and what arrives over them."""
