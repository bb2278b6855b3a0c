"""Tables that published rules describe, with dated and cited thresholds; one .json file per rule."""
