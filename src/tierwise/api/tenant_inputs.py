"""All that a tenant writes and the scheduler obeys: what it can take from others, and what keeps that in bounds.

A tenant may write objects in one namespace. Keys under tierwise's prefix have a row also where only tierwise should
write them, because they can be forged. The page on the security model shows this table.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["PREFIX", "TENANT_INPUTS", "TenantInput"]

PREFIX: Final = "tierwise.io/"


class TenantInput(NamedTuple):
    """Keys or fields that belong together."""

    keys: tuple[str, ...]
    takes: str  # from others
    cap: str
    charge: str  # who pays
    switch: str  # of the profile
    tests: tuple[str, ...]  # and conformance cases, which hold it


def _row(text: str) -> TenantInput:
    keys, takes, cap, charge, switch, tests = " ".join(text.split()).split(" | ")
    names = tuple(f"{PREFIX}{key[1:]}" if key.startswith("/") else key for key in keys.split())
    return TenantInput(names, takes, cap, charge, switch, tuple(tests.split()))


# The fields of each row, as above; a key that begins with a slash is under the prefix.
_TABLE: Final = """
- /spares | places that are kept free where it runs | one, or a tenth of its running pods; open to higher priorities |
  its queue, and the ResourceQuotas of its namespace | `maxSpares` of `repair` |
  test_a_gang_has_a_tenth_of_its_pods_as_spares_or_one test_spares_are_charged_to_their_queue
  test_spares_are_open_to_whom_is_more_important spares-of-a-plain-pod-do-not-take-the-cluster
- /borrows-spares | spares of others, which it gives back at once | the spares that are kept; an owner takes back no
  more than these | its queue, as pods that run | `maxSpares` of `repair` | test_spares_may_be_borrowed
  test_borrowers_give_back_no_more_than_was_kept
- /expected-duration | an earlier start where it says that it ends before a reservation; with it reservations have a
  moment | its own namespace, else a deadline or a record; a broken word is none | its queue, as pods that run |
  `trustStatedDurations` and `reservations` of allocate | test_the_word_of_a_job_counts_in_its_own_namespace
  test_a_record_of_kept_words_counts_elsewhere_too test_an_end_that_was_promised_and_did_not_come_is_none
- spec.minMember | with reservations, room that is kept until it fits: nothing without a known moment |
  `reservationWindow`, `reservationDepth`; never against a higher priority | its queue, while others are served |
  `reservations` of allocate | test_without_a_known_moment_nobody_is_held_back
  test_a_more_important_job_is_not_held_back test_a_reservation_is_charged_to_its_queue
  test_a_moment_too_far_ahead_holds_nobody_back
- /reservation | nothing: of places that are free as early, the one that it names | a place that its search finds | as
  the reservation | `reservations` of allocate | test_a_reservation_stays_where_it_was
  test_an_annotation_that_cannot_be_read_is_none
- /minimum-run-time | protection of young pods from eviction | 1h: `maxMinimumRunTime` | its queue, as pods that run |
  `maxMinimumRunTime` of `eviction-cost` | test_young_pods_stay
- /restart-cost | a later turn among victims; declined plans of others | 24h: `maxRestartCost`; half of the gain, and
  `maxDecline`, where plans are declined | its queue, as pods that run | `maxRestartCost`, `maxDecline` and `decline` of
  `eviction-cost` | test_a_claim_does_not_make_a_job_unevictable test_only_so_much_of_a_claim_ranks_victims
  test_an_absurd_figure_of_a_bystander_stops_no_other_eviction
- /checkpointed-at | as work that was never saved: a later turn among victims, and declined plans | 1h: `maxDecline` |
  its queue, as pods that run | `maxDecline` and `decline` of `eviction-cost` | test_a_plan_is_not_declined_for_ever
- /eviction-notice | time for which a preemptor waits | 10m: `maxNotice`; once given, notice is kept | its queue, as
  pods that run | `maxNotice` of `eviction-cost` | test_others_go_at_once
  test_jobs_that_save_in_turn_do_not_keep_an_urgent_one_out
- volcano.sh/preemptable scheduling.koordinator.sh/disable-preemptible quota.scheduling.koordinator.sh/preemptible | its
  running pods are not evicted | none; non-preemptible pods of Koordinator stay within the min of their quota | its
  queue, as pods that run | none: a policy of the cluster on the annotation | test_non_preemptible_pods_keep_within_min
- PodDisruptionBudget | protection of its own pods from eviction | pods of its own namespace | its queue, as pods that
  run | `pdb` | test_a_budget_covers_its_own_namespace
- /on-node-loss | nothing: its own pods restart, and are placed like others | its own queue's quota | its queue, as pods
  that run | `onNodeLoss` of `repair` | test_a_job_chooses_what_is_restarted
  test_an_owner_beyond_its_quota_evicts_no_borrower
- /topology-ladder | nothing: what it declines is for others | the time of its steps | nobody | `ladder` and `patience`
  | test_who_comes_after_it_is_served test_nobody_is_evicted_for_it test_what_cannot_be_read_waits_and_is_refused
- /fabric /fabric.* /topology-constraints | nothing: it narrows where it may run | fabrics that exist; what cannot be
  read waits | nobody | `network-topology-aware` | test_what_is_missing_or_not_understood_makes_a_hard_job_wait
  test_what_cannot_be_read_is_told
- /pattern /rank /ranks /coordinates | nothing: which of its own pods gets which of its places | its own gang | nobody |
  none | test_patterns_are_read test_ranks_that_contradict_each_other_are_counted_anew
- /hypernode /sub-groups /tier /topology | nothing: where a sub-group goes first, if it fits there | the limit of its
  job | nobody | none | test_where_its_rack_is_full_it_goes_next_door test_partition_restart_keeps_to_the_jobs_limit
- spec.affinity spec.topologySpreadConstraints | nodes, which required anti-affinity keeps pods of other namespaces away
  from, as in Kubernetes | a ResourceQuota with scope `CrossNamespacePodAffinity` | its queue, as pods that run | none |
  test_anti_affinity_keeps_away_from_matching_pods
- spec.priority priorityClassName | a turn before others, and room that less important pods give up | PriorityClasses
  that the cluster admits; a podGroup's class lifts none of its pods | a ResourceQuota with scope `PriorityClass` |
  `trustPodGroupPriority` | h6-podgroup-class-does-not-lift-its-pods
- spec.queue scheduling.volcano.sh/queue-name quota.scheduling.koordinator.sh/name | a place in any open Queue, or any
  trusted quota | capabilities of Queues, max of quotas | the queue that it names | none: a policy of the cluster on the
  field | test_the_limit_of_a_queue_and_of_those_above_it_holds tenant-quota-that-a-pod-of-another-namespace-names
- spec.minResources | what its queue promises before its pods exist | what its pods ask for | its queue, when it is let
  in | `overcommit` and `proportion` | tenant-claim-of-a-podgroup-without-pods
  tenant-claim-of-a-podgroup-beyond-its-pods
- sla-waiting-time | a turn before others, once it has waited so long | none | its queue, as pods that run | `sla` |
  test_a_job_is_due_once_its_deadline_has_passed
- ElasticQuota | nothing: its min, weight and total count in its own namespace | trusted quotas and the default queue's
  capability | the quota itself | `trustedNamespaces` of `elasticquota` | tenant-quota-that-asks-for-all-with-its-min
  tenant-quota-does-not-free-from-a-trusted-one
- /quota-over-since | time before a quota of its own gives back; those that others rely on are not its to write | a time
  in the future counts as now | its quota | `delayEvictTime` of `elasticquota` |
  test_a_quota_has_its_time_before_it_gives_back test_a_time_in_the_future_was_wrong
- gang.scheduling.koordinator.sh/groups | nothing: a group holds where every gang in it names the same | its own
  namespace | its queue, as pods that run | `crossNamespaceGangGroups` of `coscheduling` |
  tenant-gang-group-across-namespaces-does-not-hold tenant-gang-group-of-pods-needs-both-sides
- PodGroup Workload PodGang CompositePodGroup JobSet LeaderWorkerSet Job AppGroup | nothing: a gang that waits holds no
  room, in every language | [limits](reference/limits.md) of one object | its queue, as pods that run | none |
  test_no_part_of_a_waiting_gang_starts test_a_job_at_the_limits_is_valid
  test_pods_of_another_namespace_are_none_of_the_application
- spec.minBandwidth | bandwidth of links, first come, first served | what links carry | nobody | `NetworkOverhead` |
  test_bandwidths_below_nought_are_refused
- /job-plugins | nothing: its own pod waits | its own pods alone | nobody | none |
  test_a_job_with_a_plugin_of_volcanos_waits
- /made-for /depends-on /partial-since /diminished-since | nothing: groups and marks of its own namespace | its own pods
  alone | nobody | none | test_a_group_of_somebody_else_with_that_name_is_not_touched test_a_mark_is_found_and_lost
- /selected-node /selected-at /volume-binding-failed-at /device-binding-failed-at | nothing: where its own claims are
  made, and when they are tried again | nodes that its class and its pod allow | nobody | none |
  test_a_choice_of_another_scheduler_stands test_another_try_is_made_after_a_pause
  test_a_device_that_failed_is_tried_again_after_a_pause
- selectors[].cel.expression | time of the scheduler, which evaluates it on every kind of devices | 1,000,000 units of
  Kubernetes' cost for one device, and as much again with 200 for each kind for all of them; of all claims that wait
  65,536 bytes and 2,000,000 units, shared fairly between namespaces | its claim, which is a fault beyond that; its
  namespace, whose further claims wait | none | test_what_holds_itself_many_times_is_charged_for_each
  test_work_is_charged_by_what_is_touched test_a_selector_that_costs_too_much_keeps_nobody_else_waiting
  test_what_selectors_cost_is_counted_for_all_devices_together
  test_many_dear_claims_of_one_tenant_keep_nobody_else_waiting test_what_a_cycle_spends_does_not_grow_with_claims
  test_cheap_selectors_are_served_whoever_else_waits comparing-lists-of-lists-does-not-stop-the-scheduler
- /caught | nothing: it is read on the lease of the scheduler alone, which operators write | its own pods alone | nobody
  | none | test_a_plugin_that_never_comes_back_is_left_out_in_the_end
- /decision /expected-start /unschedulable /family /observed-revision | nothing: it is told, or read on objects of
  operators alone | its own pods alone | nobody | none | test_an_annotation_is_read_as_it_was_written
  test_nothing_that_is_written_names_objects_of_others
- /run-for /start-after /stop-after /exit-code /provision-after | nothing on a real cluster: the embedded one lets pods
  live by it | its own pods alone | nobody | none | test_a_pod_starts_runs_and_ends test_odd_annotations_are_bad_input
"""

TENANT_INPUTS: Final = tuple(map(_row, _TABLE.split("\n- ")[1:]))
