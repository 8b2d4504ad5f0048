import Addressing
import Bytes
package import HTTPServices
import PushDelivery
import Registration
import Timekeeping

/// The report of `sippushd explain` about a user's phones or about a call.
package struct ExplainReport: Codable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = [
        "date": .words("The time of the report, in Unix seconds."),
        "pbx": .words("The user's state at the PBX. Only with `register-upstream`."),
        "storeFailure": .words(
            "Why the store accepts no changes now. New records are missing until it accepts changes again."),
        "rules": .words("The user's rules for calls; missing if the user has none."),
        "silence": .words("Until when the user's devices do not ring; missing if they ring."),
        "maximumAge": .words("How long records are kept, in seconds."),
        "missingNodes": .words(
            "The nodes of the cluster that did not answer, so that the report lacks their active calls."),
    ]

    /// The name in the operator's query: a user, a Call-ID, an address or a number.
    package var name: String
    /// Whether ``name`` is a user in one of the daemon's domains, and not a Call-ID, an address or a number.
    package var isUser: Bool
    /// Whether the user has a contact or a password.
    package var isKnown: Bool
    /// The time at which the report was made, in Unix seconds.
    package var date: Seconds
    /// The user's state at the PBX; `nil` if the daemon does not keep the user registered at a PBX.
    package var pbx: UpstreamUserReport?
    /// The user's rules for calls; `nil` if the user has none.
    package var rules: UserRulesBody?
    /// Until when the user's do-not-disturb is in force, in words; `nil` if it is not in force.
    package var silence: String?
    package var contacts: [ContactReport] = []
    package var providers: [ProviderReport] = []
    package var held: [HeldCallReport] = []
    /// The number of the user's missed calls that were not yet reported to all devices.
    package var missedCalls = 0
    /// The number of messages that wait for the user's phones.
    package var messages = 0
    /// Whether the daemon keeps a timeline.
    package var keepsTimeline: Bool
    /// The time for which the daemon keeps timeline records, in seconds.
    package var maximumAge: Int64
    /// Why the store accepts no changes, so that new timeline records are missing; `nil` if the store accepts changes.
    package var storeFailure: String?
    /// The records of the push timeline, oldest first. The records of active calls are incomplete.
    package var records: [TimelineReport] = []

    /// The nodes that did not answer; `nil` if all nodes have answered.
    package var missingNodes: [MissingNode]?

    /// The report in words, if the request asks for them.
    package var words: Words?

    /// The texts of `sippushd explain`, for a program that shows the report.
    package struct Words: Codable, Sendable {
        package var lines: [Line]
        /// The last step of the newest call, in one sentence.
        package var verdict: String
        /// The advice to the operator; empty if nothing failed.
        package var advice: String

        package struct Line: Codable, Sendable {
            /// The index of the step's record in ``ExplainReport/records``; `nil` for lines without a record.
            package var record: Int?
            package var text: String
            package var advice = ""
        }

        init(_ lines: [Line], _ verdict: String, _ advice: String) {
            (self.lines, self.verdict, self.advice) = (lines, verdict, advice)
        }
    }

    package struct ContactReport: Codable, Sendable {
        package var device: UInt64
        /// The short name of the device for people: see ``BindingReport/name``.
        package var deviceName: String
        /// The provider and the first characters of the push token; `nil` for a contact that gets no pushes.
        package var token: String?
        /// The provider in the contact's push parameters, if the provider is switched off; otherwise `nil`.
        package var switchedOff: String?
        /// The provider of the device's push token, if the provider is paused; otherwise `nil`.
        package var paused: String?
        /// Whether the contact has push parameters, valid or invalid.
        package var hasPushParameters: Bool
        /// Whether an app or its server reported the device over HTTP, and the device has not registered since. A
        /// device that is known only by a report over HTTP can get pushes, but no calls.
        package var isReported: Bool
        package var registeredAt: Seconds
        /// The time at which the contact expires, in Unix seconds. The time can be in the past, because a contact with
        /// push parameters stays after its expiry.
        package var expiresAt: Seconds
    }

    /// Whether the report has no known user, no call and no record.
    package var isEmpty: Bool { !isKnown && contacts.isEmpty && held.isEmpty && records.isEmpty }
}

/// One record of the timeline; `TimelineRecord` explains the fields.
package struct TimelineReport: Codable, Hashable, Sendable {
    package var kind: String
    package var aor: String
    package var callID: String
    package var callRef: String?
    package var calls: Int
    package var device: UInt64
    /// The name of the device (see ``BindingReport/name``); `nil` for a record without a device.
    package var deviceName: String?
    package var requestedAt: Seconds
    package var omission: String?
    package var app: String
    package var code: String?
    package var delivery: String
    package var tries: Int
    package var answer: String?
    package var status: Int?
    package var reason: String
    package var deadSince: Seconds?
    package var providerID: String
    // The values of all fields whose names end in `After` are durations since `requestedAt`.
    package var sentAfter: Seconds?
    package var answeredAfter: Seconds?
    package var registeredAfter: Seconds?
    /// The kind of the phone's message that made the daemon send the INVITE without a REGISTER: `keep-alive`, `request`
    /// or `response`.
    package var sign: String?
    package var invitedAfter: Seconds?
    package var rangAfter: Seconds?
    package var endedAfter: Seconds?
    /// The time from the request of the push until the phone received the push. The app reports the arrival of the
    /// push; for a call, SIP can also show the arrival.
    package var receivedAfter: Seconds?
    package var followedAfter: Seconds?
    package var readAfter: Seconds?
    package var end: String?
    package var endStatus: UInt16?
    /// Why the request was refused immediately; `nil` for an accepted request.
    package var refusal: String?
    /// The address and port of the request's sender, only in records of refused requests and of calls from phones;
    /// otherwise empty.
    package var source: String
    /// The URI of the other party of the call, only in records of refused requests and of calls from phones; otherwise
    /// empty.
    package var peer: String
    /// The id of the call's trace in the OTLP collector; `nil` while the daemon sends no spans.
    package var traceID: String?
    /// The name of another node at which the call is active; `nil` for all other records.
    package var node: String?

    init(_ record: TimelineRecord) {
        func after(_ step: Int32?) -> Seconds? { step.map { Seconds(milliseconds: Int64($0)) } }
        func after(_ date: UnixTime?) -> Seconds? {
            date.map { date in
                Seconds(
                    milliseconds: date.milliseconds.subtractingReportingOverflow(record.requestedAt.milliseconds)
                        .partialValue)
            }
        }
        kind = record.kind.rawValue
        aor = "\(record.user)@\(record.host)"
        callID = record.callID.string
        callRef = record.callRef?.description
        calls = record.calls
        device = record.device.rawValue
        deviceName = record.device == .nobody ? nil : record.device.name
        requestedAt = Seconds(record.requestedAt)
        omission = record.omission?.rawValue
        app = record.app
        code = record.code?.description
        delivery = record.delivery.rawValue
        tries = record.tries
        answer = record.answer?.rawValue
        status = record.status
        reason = record.reason
        deadSince = record.deadSince.map { Seconds($0) }
        providerID = record.providerID.string
        sentAfter = after(record.steps.sent)
        answeredAfter = after(record.steps.answered)
        registeredAfter = after(record.steps.registered)
        sign = record.sign?.rawValue
        invitedAfter = after(record.steps.invited)
        rangAfter = after(record.steps.rang)
        endedAfter = after(record.steps.ended)
        receivedAfter = after(record.marks.received)
        followedAfter = after(record.marks.followed)
        readAfter = after(record.marks.read)
        end = record.end?.rawValue
        endStatus = record.endStatus
        refusal = record.refusal?.rawValue
        source = record.source.string
        peer = record.peer.string
    }
}
