//! The contract on one server, on a cluster, by TLS and by a sentinel, and what only this store can get wrong.
//!
//! What keeps the queue true, and tests that fail without it:
//!
//! | safeguard | test |
//! | --- | --- |
//! | a commit's nonce, found in the log | `failing::a_commit_whose_answer_is_lost_takes_effect_once` |
//! | a commit is asked for again | the same |
//! | the run id of the server | `losing::a_tail_that_was_lost_with_its_gateways_is_passed_over` |
//! | the generation in the checkpoint | `checkpoint::tests::a_folder_keeps_its_promises` |
//! | a generation is handed out once | the same |
//! | the checkpoint, ahead of use | `losing::a_server_and_its_gateways_gone_leave_the_checkpoint` |
//! | what may be lost is passed over | `losing::a_tail_that_was_lost_with_its_gateways_is_passed_over` |
//! | line, version and server that a batch was run on, each | `scripts::a_batch_counts_on_the_very_line_version_and_server_that_it_was_run_on_and_on_no_other` |
//! | a commit's head comes last | `scripts::what_a_commit_has_written_before_an_error_belongs_to_no_version` |
//! | the head that a sale which is put back replaces | `scripts::a_sale_is_put_in_the_place_of_the_head_that_was_seen_and_of_no_other` |
//! | the version that a batch was run on | `racing`, `failing::a_gateway_stopped_in_a_commit_overwrites_nothing_when_it_goes_on` |
//! | a refused batch is taken back | `racing::eight_gateways_admit_one_at_a_time` |
//! | one attempt to connect for all who wait | `failing::who_waits_for_a_server_that_hangs_waits_no_longer_for_others_who_wait` |
//! | turns | `fairness::of_two_gateways_flat_out_neither_is_passed_over` |
//! | only whose turn it is may commit | `fairness::who_waits_for_a_turn_is_not_overtaken_by_who_looked_before` |
//! | a turn begins once | `fairness::a_turn_that_is_only_asked_for_again_and_again_ends` |
//! | the server's clock is held steady | `failing::no_lease_ends_early_and_nobody_is_called_early_by_a_clock_that_is_set` |
//! | the sale's time never goes back | `fixture::one_server::a_clock_that_steps_back_calls_nobody` |
//! | nor does what a replica has seen of it | `racing::time_that_was_seen_without_a_commit_does_not_go_back` |
//! | copies of joins are written where there are none | `spreading::whoever_stops_between_the_steps_of_moving_loses_nothing_and_leaves_nothing_twice` |
//! | what the copies do not say is kept beside them | the same |
//! | what changes after that, too | `spreading::copies_that_nobody_puts_back_are_passed_over_until_somebody_knows_them` |
//! | who lacks something does not pass for who knows it | the same |
//! | a move that fails is left alone for a while | `spreading::a_move_that_cannot_be_committed_does_not_stop_the_sale` |
//! | without a checkpoint, a block is passed over | `losing::without_a_checkpoint_whoever_knows_less_comes_first_and_gives_no_number_twice` |
//! | what was ordered is put back by who knows it | the same |
//! | who knows a lost sale comes before who does not | `losing::a_gateway_that_knows_nothing_of_a_lost_sale_lets_those_who_know_it_put_it_back` |
//! | what became of the called is put back | `losing::a_gateway_that_knows_all_puts_it_back_after_one_that_knew_nothing_went_on` |
//! | what is not put in place is removed | `losing::a_sale_that_does_not_fit_leaves_nothing_behind_and_is_put_back_once_it_does` |
//! | copies are looked for | `spreading::copies_that_a_master_lost_are_put_back_by_who_knows_them` |
//! | copies have a digest | the same |
//! | copies that are missed are asked for | the same |
//! | what is moved meanwhile is read again | `spreading::who_reads_the_sale_while_joins_are_moved_finds_them` |
//! | another version's sale is not touched | `format::a_sale_of_a_newer_version_is_left_as_it_is_and_not_put_back_as_it_was` |
//! | nor is its checkpoint | `format::what_a_newer_version_has_written_down_is_not_overwritten` |
//! | who signs with what others do not have is refused | `agreeing::a_gateway_with_other_keys_has_nothing_to_do_with_any_sale` |
//! | who keeps another checkpoint is refused | `agreeing::a_gateway_with_another_checkpoint_is_refused_until_that_is_meant` |

mod agreeing;
mod failing;
mod fairness;
pub(super) mod fixture;
mod format;
mod history;
mod losing;
mod racing;
mod scene;
mod scripts;
pub(super) mod secure;
mod spreading;
mod undone;
