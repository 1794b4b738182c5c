"""What the keeper writes into the cluster. `status` reads it."""

# On a flavor, Kueue's word for one kind of node: since when no job is admitted to it.
HELD_SINCE = "capacity-keeper/held-back-since"
# On the workload of a job: the keeper has stopped it.
STOPPED = "capacity-keeper/stopped"
# On the workload of a job: the capacities that it has given up, with their times, as JSON.
TRIED = "capacity-keeper/tried"
