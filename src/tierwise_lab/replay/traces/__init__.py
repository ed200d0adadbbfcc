"""What is replayed: traces, fabrics and queues."""
