/// A Prometheus metric without its value: family, labels and help text.
package struct MetricName: Hashable, Sendable {
    package let family: String
    /// The labels, such as `method="REGISTER"`; empty for none.
    package let labels: String
    package let help: String

    init(_ family: String, labels: String = "", _ help: String) {
        self.family = family
        self.labels = labels
        self.help = help
    }
}

/// A metric that only rises.
package enum Counter: Int, CaseIterable, Sendable {
    case requestRegister, requestInvite, requestAck, requestCancel, requestBye, requestOptions, requestMessage
    case requestOther
    case response1xx, response2xx, response3xx, response4xx, response5xx, response6xx
    case rejectedMalformed, rejectedTooLarge, rejectedOverload, rejectedStrayed
    case refusedWithoutDialog, refusedWithoutTrust, refusedCommand, refusedName
    case challengeUnanswerable
    case registerAccepted, registerRefused
    case bindingCreated, bindingRemoved, tokenDropped
    case challengeSent, credentialsAccepted, credentialsRefused
    case loginFailed, loginLimited
    case wakeChallenged, wakeKeptNonce, wakePushedNonce
    case userKnown, userUnknown, userUnusable, userFailed, userLate, userKept, userRefused
    case tokenAccepted, tokenRefused, tokenChecked
    case outgoingCall, outgoingAnswered, outgoingRefused, outgoingUnanswered, outgoingUnreachable, outgoingGivenUp
    case shareUsedUp, registerLimited
    case call, callForwarded, callResumed, heldDelivered, heldCancelled, heldTimedOut, heldDeviceGone
    case callForeignDomain, callOtherIdentity, callForgedRoute, callUnknownUser, callNotTrusted, callWrongPassword
    case callNoContact, callNotSecure, callCalleeLimit, callCallerLimit, callTooManyCalls, callNoRoom, callOverload
    case callUpstreamAway, callDraining, callWrongLogins, callUsersAway, callKeysAway, callLoop, callUnfit
    case callOtherTenant, callTenantLimit, callStoodStill
    case phoneAsked, phoneAnswered
    case pushWithoutApp, refreshPush, refreshSecond, refreshThird
    case refreshCameFirst, refreshCameSecond, refreshCameThird, refreshNever, refreshHeldBack
    case missedCallStored, missedCallReported, missedCallNotCarried
    case messageStored, messageDelivered, messageGivenUp, messageExpired
    case nodeReadFresh, nodeReadStale, nodeReadRefused, nodeNoticeSent, nodeNoticeReceived, nodeRequest
    case callTakenOver, messageTakenOver, contactTakenOver, callGivenAway
    case flowOpened, flowClosed
    case flowRefusedSource, flowRefusedFull, flowRefusedHandshake, flowGaveWay, flowNoRequest, flowNotProved, flowIdle
    case flowNotReading, flowNoHeader
    case tlsFull, tlsResumed, tlsRefusedIncoming, tlsRefusedOutgoing
    case udpReceiveDropped, udpSendDropped
    case httpRequest, httpRefused
    case storeCommit, storeChange, storeFailure, journalFailure
    case timelineDropped
    case logLineDropped
    case hepSent, hepDropped, hepCut
    case spanSent, spanDropped
    case eventWritten, eventDelivered, eventRequestFailed, eventWriteFailure
    case eventDroppedFull, eventDroppedShare, eventDroppedDisk, eventDroppedDamage

    package var name: MetricName {
        switch self {
        case .requestRegister: Self.request("REGISTER")
        case .requestInvite: Self.request("INVITE")
        case .requestAck: Self.request("ACK")
        case .requestCancel: Self.request("CANCEL")
        case .requestBye: Self.request("BYE")
        case .requestOptions: Self.request("OPTIONS")
        case .requestMessage: Self.request("MESSAGE")
        case .requestOther: Self.request("other")
        case .response1xx: Self.response("1xx")
        case .response2xx: Self.response("2xx")
        case .response3xx: Self.response("3xx")
        case .response4xx: Self.response("4xx")
        case .response5xx: Self.response("5xx")
        case .response6xx: Self.response("6xx")
        case .rejectedMalformed: Self.rejected("malformed")
        case .rejectedTooLarge: Self.rejected("too-large")
        case .rejectedOverload: Self.rejected("overload")
        case .refusedWithoutDialog: Self.refusedByRule("needs-dialog")
        case .refusedWithoutTrust: Self.refusedByRule("needs-trust")
        case .refusedCommand: Self.refusedByRule("command")
        case .refusedName: Self.refusedByRule("other-name")
        case .challengeUnanswerable:
            MetricName(
                "sippushd_unanswerable_challenges_total",
                "Challenges of next hops in a realm of this daemon; the phone gets 502.")
        case .rejectedStrayed: Self.rejected("response-from-elsewhere")
        case .registerAccepted: Self.register("accepted")
        case .registerRefused: Self.register("refused")
        case .bindingCreated: Self.binding("created")
        case .bindingRemoved: Self.binding("removed")
        case .tokenDropped:
            MetricName("sippushd_tokens_dropped_total", "Bindings removed because their push token is dead.")
        case .challengeSent: Self.authentication("challenged")
        case .credentialsAccepted: Self.authentication("accepted")
        case .credentialsRefused: Self.authentication("refused")
        case .loginFailed:
            MetricName("sippushd_wrong_logins_total", "Wrong passwords, keys and ApiTokens, over SIP and HTTP.")
        case .loginLimited:
            MetricName(
                "sippushd_limited_logins_total",
                "Passwords and ApiTokens refused without a check, after too many wrong ones.")
        case .wakeChallenged: Self.wake("challenge")
        case .wakeKeptNonce: Self.wake("kept")
        case .wakePushedNonce: Self.wake("push")
        case .userKnown: Self.user("known")
        case .userUnknown: Self.user("unknown")
        case .userUnusable: Self.user("unusable")
        case .userFailed: Self.user("failed")
        case .userLate: Self.user("late")
        case .userKept:
            MetricName(
                "sippushd_users_kept_total",
                "Users judged by an old answer because no source of users answered.")
        case .userRefused:
            MetricName(
                "sippushd_users_not_judged_total",
                "Requests and logins answered 503 because no source of users could say who the user is.")
        case .tokenAccepted: Self.token("accepted")
        case .tokenRefused: Self.token("refused")
        case .tokenChecked:
            MetricName("sippushd_bearer_checks_total", "Signatures of bearer tokens that were checked.")
        case .outgoingCall:
            MetricName("sippushd_outgoing_calls_total", "Calls that phones make through the upstream.")
        case .outgoingAnswered: Self.outgoing("answered")
        case .outgoingRefused: Self.outgoing("refused")
        case .outgoingUnanswered: Self.outgoing("no-answer")
        case .outgoingUnreachable: Self.outgoing("unreachable")
        case .outgoingGivenUp: Self.outgoing("gave-up")
        case .shareUsedUp:
            MetricName(
                "sippushd_shares_used_up_total",
                "Requests refused because their caller or callee has used up its share of a limit.")
        case .registerLimited:
            MetricName("sippushd_limited_registers_total", "REGISTERs refused because their source sends too many.")
        case .call: MetricName("sippushd_calls_total", "Calls offered to users.")
        case .callForwarded:
            MetricName("sippushd_calls_forwarded_total", "Calls that were forwarded because no phone came.")
        case .callResumed:
            MetricName("sippushd_calls_resumed_total", "Calls of the previous process that this process resumed.")
        case .callForeignDomain: Self.refused("foreign-domain")
        case .callOtherIdentity: Self.refused("other-identity")
        case .callForgedRoute: Self.refused("forged-route")
        case .callUnknownUser: Self.refused("unknown-user")
        case .callNotTrusted: Self.refused("not-trusted")
        case .callWrongPassword: Self.refused("wrong-password")
        case .callNoContact: Self.refused("no-contact")
        case .callNotSecure: Self.refused("not-secure")
        case .callCalleeLimit: Self.refused("callee-limit")
        case .callCallerLimit: Self.refused("caller-limit")
        case .callOtherTenant: Self.refused("other-tenant")
        case .callTenantLimit: Self.refused("tenant-limit")
        case .callTooManyCalls: Self.refused("too-many-calls")
        case .callNoRoom: Self.refused("no-room")
        case .callOverload: Self.refused("overload")
        case .callStoodStill: Self.refused("stood-still")
        case .callUpstreamAway: Self.refused("upstream-away")
        case .callDraining: Self.refused("draining")
        case .callWrongLogins: Self.refused("wrong-logins")
        case .callUsersAway: Self.refused("users-away")
        case .callKeysAway: Self.refused("keys-away")
        case .callLoop: Self.refused("loop")
        case .callUnfit: Self.refused("unfit")
        case .heldDelivered: Self.held("delivered")
        case .heldCancelled: Self.held("cancelled")
        case .heldTimedOut: Self.held("timed-out")
        case .heldDeviceGone: Self.held("device-gone")
        case .phoneAsked:
            MetricName("sippushd_phones_asked_total", "Open connections asked by OPTIONS whether their phone is awake.")
        case .phoneAnswered:
            MetricName(
                "sippushd_phones_answered_total", "Phones that answered the OPTIONS whether they are awake.")
        case .pushWithoutApp:
            MetricName("sippushd_pushes_without_app_total", "Pushes to tokens that belong to no configured app.")
        case .refreshPush:
            MetricName("sippushd_refresh_pushes_total", "Pushes that asked phones to refresh their registrations.")
        case .refreshSecond: Self.repeatedRefresh("second")
        case .refreshThird: Self.repeatedRefresh("third")
        case .refreshCameFirst: Self.cameAfterRefresh("first")
        case .refreshCameSecond: Self.cameAfterRefresh("second")
        case .refreshCameThird: Self.cameAfterRefresh("third")
        case .refreshNever:
            MetricName(
                "sippushd_refresh_unanswered_total",
                "Phones that got refresh pushes and did not register before their expiry.")
        case .refreshHeldBack:
            MetricName(
                "sippushd_refresh_held_back_total", "Contacts whose refresh push a limit or a pause has held back.")
        case .missedCallStored: Self.missedCall("stored")
        case .missedCallReported: Self.missedCall("reported")
        case .missedCallNotCarried: Self.missedCall("not-carried")
        case .messageStored: Self.message("stored")
        case .messageDelivered: Self.message("delivered")
        case .messageGivenUp: Self.message("given-up")
        case .messageExpired: Self.message("expired")
        case .nodeReadFresh: Self.nodeRead("fresh")
        case .nodeReadStale: Self.nodeRead("stale")
        case .nodeReadRefused: Self.nodeRead("refused")
        case .nodeNoticeSent: Self.nodeNotice("sent")
        case .nodeNoticeReceived: Self.nodeNotice("received")
        case .nodeRequest:
            MetricName(
                "sippushd_node_requests_total", "Requests of other nodes to phones with a connection to this node.")
        case .callTakenOver: Self.takenOver("call")
        case .messageTakenOver: Self.takenOver("message")
        case .contactTakenOver: Self.takenOver("contact")
        case .callGivenAway:
            MetricName(
                "sippushd_calls_given_away_total",
                "Calls that other nodes continue, because this node gave no sign of life.")
        case .flowOpened: Self.flow("opened")
        case .flowClosed: Self.flow("closed")
        case .flowRefusedSource: Self.flowDropped("source-limit")
        case .flowRefusedFull: Self.flowDropped("table-full")
        case .flowRefusedHandshake: Self.flowDropped("handshake-limit")
        case .flowGaveWay: Self.flowDropped("gave-way")
        case .flowNoRequest: Self.flowDropped("no-request")
        case .flowNotProved: Self.flowDropped("not-proved")
        case .flowIdle: Self.flowDropped("idle")
        case .flowNotReading: Self.flowDropped("not-reading")
        case .flowNoHeader: Self.flowDropped("no-proxy-header")
        case .tlsFull: Self.handshake("full")
        case .tlsResumed: Self.handshake("resumed")
        case .tlsRefusedIncoming: Self.handshake("failed-incoming")
        case .tlsRefusedOutgoing: Self.handshake("failed-outgoing")
        case .udpReceiveDropped:
            MetricName(
                "sippushd_udp_receive_drops_total",
                "Datagrams that the kernel dropped because the daemon did not read in time."
            )
        case .udpSendDropped:
            MetricName(
                "sippushd_udp_send_drops_total",
                "Datagrams that the daemon dropped because the kernel's buffer was full.")
        case .httpRequest: MetricName("sippushd_http_requests_total", "Requests to the API and the admin API.")
        case .httpRefused:
            MetricName("sippushd_http_refused_total", "Requests to the API and the admin API answered 4xx or 5xx.")
        case .storeCommit: MetricName("sippushd_store_commits_total", "Transactions committed to the store.")
        case .storeChange: MetricName("sippushd_store_changes_total", "Changes committed to the store.")
        case .journalFailure:
            MetricName("sippushd_journal_failures_total", "Failed writes of the call journal.")
        case .storeFailure: MetricName("sippushd_store_failures_total", "Changes that could not be committed.")
        case .timelineDropped:
            MetricName(
                "sippushd_timeline_records_dropped_total",
                "Records for explain that were dropped because memory or the store's queue had no room.")
        case .logLineDropped: MetricName("sippushd_log_dropped_total", "Log lines lost to a slow reader.")
        case .hepSent: MetricName("sippushd_hep_sent_total", "Packets sent to the HEP collector.")
        case .hepDropped:
            MetricName(
                "sippushd_hep_dropped_total",
                "HEP packets that were dropped because the collector was away or slow.")
        case .hepCut:
            MetricName("sippushd_hep_cut_total", "HEP packets whose message lost its end because it was too long.")
        case .spanSent: MetricName("sippushd_otlp_spans_sent_total", "Spans that the OTLP collector took.")
        case .spanDropped:
            MetricName(
                "sippushd_otlp_spans_dropped_total",
                "Spans that were lost because the OTLP collector was away or slow, or refused them.")
        case .eventWritten: MetricName("sippushd_events_total", "Events for the receiver.")
        case .eventDelivered:
            MetricName("sippushd_events_delivered_total", "Events that the receiver took, including repeated events.")
        case .eventRequestFailed:
            MetricName("sippushd_events_failed_requests_total", "Requests with events that the receiver did not take.")
        case .eventWriteFailure:
            MetricName("sippushd_events_write_failures_total", "Failed writes of events to the disk.")
        case .eventDroppedFull: Self.eventDropped("full")
        case .eventDroppedShare: Self.eventDropped("share")
        case .eventDroppedDisk: Self.eventDropped("disk")
        case .eventDroppedDamage: Self.eventDropped("damage")
        }
    }

    private static func eventDropped(_ reason: String) -> MetricName {
        MetricName(
            "sippushd_events_dropped_total", labels: "reason=\"\(reason)\"",
            "Events that were dropped before the receiver took them, by reason.")
    }

    private static func request(_ method: String) -> MetricName {
        MetricName("sippushd_sip_requests_total", labels: "method=\"\(method)\"", "SIP requests received.")
    }

    private static func wake(_ nonce: String) -> MetricName {
        MetricName(
            "sippushd_wakes_total", labels: "nonce=\"\(nonce)\"",
            "REGISTERs that released calls, by the origin of their nonce: only those with a challenge needed a second REGISTER."
        )
    }

    private static func response(_ statusClass: String) -> MetricName {
        MetricName("sippushd_sip_responses_total", labels: "class=\"\(statusClass)\"", "SIP responses sent.")
    }

    private static func rejected(_ reason: String) -> MetricName {
        MetricName(
            "sippushd_sip_rejected_total", labels: "reason=\"\(reason)\"",
            "SIP messages refused before any rule was applied.")
    }

    private static func refusedByRule(_ rule: String) -> MetricName {
        MetricName(
            "sippushd_requests_refused_total", labels: "rule=\"\(rule)\"",
            "Requests refused because their sender may not send them, by rule.")
    }

    private static func user(_ result: String) -> MetricName {
        MetricName(
            "sippushd_user_questions_total", labels: "result=\"\(result)\"",
            "Questions to sources of users outside the store, by result.")
    }

    private static func token(_ result: String) -> MetricName {
        MetricName(
            "sippushd_bearer_tokens_total", labels: "result=\"\(result)\"", "Bearer tokens in requests, by result.")
    }

    private static func register(_ outcome: String) -> MetricName {
        MetricName("sippushd_registers_total", labels: "outcome=\"\(outcome)\"", "REGISTERs by outcome.")
    }

    private static func binding(_ outcome: String) -> MetricName {
        MetricName(
            "sippushd_binding_changes_total", labels: "outcome=\"\(outcome)\"", "Added and removed bindings.")
    }

    private static func authentication(_ outcome: String) -> MetricName {
        MetricName(
            "sippushd_authentications_total", labels: "outcome=\"\(outcome)\"", "Digest challenges and their answers.")
    }

    private static func refused(_ reason: String) -> MetricName {
        MetricName(
            "sippushd_calls_refused_total", labels: "reason=\"\(reason)\"", "Calls that were refused immediately.")
    }

    private static func outgoing(_ outcome: String) -> MetricName {
        MetricName(
            "sippushd_outgoing_calls_ended_total", labels: "outcome=\"\(outcome)\"",
            "INVITEs of phones to the upstream that have ended, by outcome.")
    }

    private static func held(_ outcome: String) -> MetricName {
        MetricName(
            "sippushd_held_calls_ended_total", labels: "outcome=\"\(outcome)\"",
            "Waits of a call for a sleeping device that have ended, by outcome."
        )
    }

    private static func repeatedRefresh(_ push: String) -> MetricName {
        MetricName(
            "sippushd_refresh_pushes_repeated_total", labels: "push=\"\(push)\"",
            "Second and third refresh pushes before one expiry.")
    }

    private static func cameAfterRefresh(_ push: String) -> MetricName {
        MetricName(
            "sippushd_refresh_returns_total", labels: "push=\"\(push)\"",
            "Phones that registered after this refresh push and before the next.")
    }

    private static func missedCall(_ outcome: String) -> MetricName {
        MetricName(
            "sippushd_missed_calls_total", labels: "outcome=\"\(outcome)\"",
            "Missed calls of devices: stored, reported, or not carried by the token.")
    }

    private static func message(_ outcome: String) -> MetricName {
        MetricName(
            "sippushd_messages_total", labels: "outcome=\"\(outcome)\"",
            "Messages that waited for phones, by outcome.")
    }

    private static func nodeRead(_ result: String) -> MetricName {
        MetricName(
            "sippushd_node_reads_total", labels: "result=\"\(result)\"",
            "Requests that waited in a cluster until the database had answered about their users, by result.")
    }

    private static func nodeNotice(_ direction: String) -> MetricName {
        MetricName(
            "sippushd_node_notices_total", labels: "direction=\"\(direction)\"",
            "Notices between nodes that a phone has registered.")
    }

    private static func takenOver(_ kind: String) -> MetricName {
        MetricName(
            "sippushd_taken_over_total", labels: "kind=\"\(kind)\"",
            "Calls, stored messages and users that this node took over after the end of another node.")
    }

    private static func flow(_ event: String) -> MetricName {
        MetricName("sippushd_connections_total", labels: "event=\"\(event)\"", "TCP and TLS connections for SIP.")
    }

    private static func handshake(_ outcome: String) -> MetricName {
        MetricName("sippushd_tls_handshakes_total", labels: "outcome=\"\(outcome)\"", "TLS handshakes for SIP.")
    }

    private static func flowDropped(_ reason: String) -> MetricName {
        MetricName(
            "sippushd_connections_dropped_total", labels: "reason=\"\(reason)\"",
            "TCP connections for SIP that the daemon refused or closed, by reason.")
    }
}

/// A metric that rises and falls, such as the current size of a table or queue.
package enum Gauge: Int, CaseIterable, Sendable {
    case bindings, pushBindings, addresses
    case heldCalls, transactions, forks
    case overload
    case usersKnown, usersUnknown, userQuestions, userSourcesAway
    case tokensRemembered, tokenIssuersAway
    case connections
    case bucketEntries, waitingMessages
    case pushQueue, pushesInFlight
    case storeQueue
    case storeFailing
    case eventsWaiting, eventAge
    case nodes, nodeDuties

    package var name: MetricName {
        switch self {
        case .bindings: MetricName("sippushd_bindings", "Bindings, including those with push parameters.")
        case .pushBindings: MetricName("sippushd_push_bindings", "Bindings with push parameters.")
        case .addresses: MetricName("sippushd_addresses_of_record", "Addresses-of-record with a binding.")
        case .heldCalls: MetricName("sippushd_held_calls", "Calls that wait for a device or ring.")
        case .transactions: MetricName("sippushd_transactions", "SIP transactions.")
        case .forks: MetricName("sippushd_forks", "Proxied requests without a final response.")
        case .connections: MetricName("sippushd_connections", "Open TCP and TLS connections for SIP.")
        case .overload:
            MetricName(
                "sippushd_overload", "The share of new work that is refused, in percent: 0 for none, 100 for all.")
        case .usersKnown: Self.remembered("known")
        case .usersUnknown: Self.remembered("unknown")
        case .userQuestions:
            MetricName("sippushd_user_questions_open", "Open questions to sources of users outside the store.")
        case .userSourcesAway:
            MetricName("sippushd_user_sources_away", "Sources of users outside the store that do not answer.")
        case .tokensRemembered:
            MetricName("sippushd_bearer_tokens_remembered", "Bearer tokens whose proof is remembered.")
        case .tokenIssuersAway:
            MetricName("sippushd_bearer_issuers_away", "Issuers of bearer tokens whose keys could not be read.")
        case .bucketEntries: MetricName("sippushd_bucket_entries", "Missed calls that are not reported yet.")
        case .waitingMessages: MetricName("sippushd_waiting_messages", "Messages that wait for phones.")
        case .pushQueue: MetricName("sippushd_push_queue", "Pushes that wait in the queue.")
        case .pushesInFlight:
            MetricName("sippushd_pushes_in_flight", "Sent pushes that the provider has not answered yet.")
        case .storeQueue: MetricName("sippushd_store_queue", "Changes that wait to be committed to the store.")
        case .eventsWaiting: MetricName("sippushd_events_waiting", "Events that wait for the receiver.")
        case .eventAge:
            MetricName("sippushd_events_oldest_seconds", "Age of the oldest event that waits for the receiver.")
        case .nodes:
            MetricName("sippushd_nodes", "Living nodes of the cluster, with this node; 0 without a cluster.")
        case .nodeDuties:
            MetricName("sippushd_node_duties", "1 on the node that has the duties of the cluster; else 0.")
        case .storeFailing:
            MetricName("sippushd_store_failing", "1 while changes cannot be written to the store; else 0.")
        }
    }
}

extension Gauge {
    private static func remembered(_ kind: String) -> MetricName {
        MetricName(
            "sippushd_users_remembered", labels: "answer=\"\(kind)\"",
            "Users that sources outside the store were asked for and that are remembered.")
    }
}
