"""What every room needs: files written whole, settings that check themselves, random keys, memory, what an agent is."""
