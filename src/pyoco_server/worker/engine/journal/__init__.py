"""What tasks returned, stored so that a later attempt does not execute them again."""
