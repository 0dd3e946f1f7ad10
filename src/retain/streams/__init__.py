"""What goes on while somebody listens: turns of a chat, and notes as they change."""
