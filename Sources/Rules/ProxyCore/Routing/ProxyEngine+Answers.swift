import AccessLimits
import Addressing
import Bytes
import Calling
import LocationService
import PushDelivery
import PushPlanning
import Registration
import Routing
import SIPDialogs
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Creates and sends the daemon's own responses.
extension ProxyEngine {
    /// Sends the daemon's final response to a request, with or without a server transaction.
    func refuse(_ incoming: IncomingRequest, _ status: Status, fields: [AddedField] = [], now: Moment) {
        guard let server = incoming.server else { return sendStateless(incoming, status, fields: fields) }
        respond(server, status, incoming.response(status, toTag: sip.tags.next(), fields: fields), now: now)
    }

    func respond(_ server: ServerTransactionID, _ status: Status, _ bytes: [UInt8], now: Moment) {
        output.counters.count(Counter(status))
        withTransactions { $0.respond(server, status: status, bytes: bytes, now: now.instant, into: &$1) }
    }

    /// Sends a final response without a transaction; each retransmission of the request gets an equal response.
    ///
    /// A response to an unauthenticated sender must be short, because the source address may be forged. The engine
    /// removes challenges from a response, first challenge first, until the response is short enough (T4.1). If no
    /// challenge fits into the response, the response is not sent.
    func sendStateless(_ incoming: IncomingRequest, _ status: Status, fields: [AddedField] = []) {
        guard incoming.request.method != .ack else { return }
        let tag = sip.tags.stateless(for: incoming.request)
        let limit = incoming.answerLimit
        let isChallenge = status == .unauthorized || status == .proxyAuthenticationRequired
        var fields = fields
        var bytes = incoming.response(status, toTag: tag, fields: fields)
        while bytes.count > limit {
            guard fields.count > (isChallenge ? 1 : 0) else { return }
            fields.removeFirst()
            bytes = incoming.response(status, toTag: tag, fields: fields)
        }
        output.counters.count(Counter(status))
        act(.send(bytes, on: incoming.responseFlow))
    }

    /// Sends 100 to an INVITE immediately, and to any other request after 3.5 seconds without a response (RFC 4320
    /// section 4.1).
    func sendTrying(_ incoming: IncomingRequest, now: Moment) {
        guard let server = incoming.server else { return }
        func bytes() -> [UInt8] { incoming.response(.trying, toTag: nil, fields: []) }
        guard incoming.request.method != .invite else { return respond(server, .trying, bytes(), now: now) }
        // If a call has stored the request, the 100 is built later, because a 100 is rarely sent.
        hold(calls.call(of: server) == nil ? bytes() : [], for: server, now: now)
    }

    /// Sends 100 to a request other than INVITE that has had no response for 3.5 seconds.
    func provisionalDue(_ server: ServerTransactionID, now: Moment) {
        guard let incoming = calls.call(of: server).flatMap(revive) else { return }
        hold(incoming.response(.trying, toTag: nil, fields: []), for: server, now: now)
    }

    private func hold(_ trying: [UInt8], for server: ServerTransactionID, now: Moment) {
        withTransactions { $0.respond(server, status: .trying, bytes: trying, now: now.instant, into: &$1) }
    }

    // MARK: Fields

    static func retryAfter(seconds: Int) -> AddedField { AddedField("Retry-After", ByteString("\(seconds)")) }

    /// A Retry-After header field in whole seconds, rounded up.
    static func retryAfter(_ wait: Duration) -> AddedField {
        retryAfter(seconds: Int(clamping: wait.components.seconds + 1))
    }

    /// A Retry-After of 3 to 10 s for requests while no source of users answers. The time is random, so that phones
    /// retry at different times.
    var retryLater: AddedField { Self.retryAfter(seconds: 3 + Int(functions.random() % 8)) }

    /// The Warning for a `sips:` request that cannot use TLS on every hop (RFC 5630 section 4).
    var sipsNotAllowed: AddedField {
        .warning(380, by: identity.domains.first ?? ByteString("sippushd"), "SIPS Not Allowed")
    }

    static let capabilities = [
        AddedField("Allow", ByteString("INVITE, ACK, CANCEL, BYE, OPTIONS, REGISTER, MESSAGE, SUBSCRIBE, NOTIFY")),
        AddedField("Supported", ByteString("path, outbound, gruu")),
    ]

    /// Gives a request a server transaction. If the transaction table is full, ``startTransaction`` answers the request
    /// with 503 and returns `nil`.
    func startTransaction(
        _ incoming: IncomingRequest, cancelling invite: ServerTransactionID? = nil, now: Moment
    ) -> IncomingRequest? {
        guard incoming.server == nil, let key = incoming.key else { return incoming }
        guard
            let server = sip.begin(
                key, for: incoming.request, cancelling: invite, respondOn: incoming.responseFlow, now: now.instant)
        else {
            output.counters.count(.rejectedOverload)
            noteRefused(incoming, .serviceUnavailable, because: .noRoom, now: now)
            sendStateless(incoming, .serviceUnavailable)
            return nil
        }
        return incoming.matched(server)
    }
}

/// Writes refused requests to the log, and refused calls also to counters and timeline records.
extension ProxyEngine {
    /// Refuses a request, and reports the refusal to operators.
    func refuse(
        _ incoming: IncomingRequest, _ status: Status, because refusal: Refusal,
        fields: [AddedField] = [], now: Moment
    ) {
        noteRefused(incoming, status, because: refusal, now: now)
        refuse(incoming, status, fields: fields, now: now)
    }

    /// Reports a refused request to operators, unless the request is an ACK or CANCEL.
    func noteRefused(
        _ incoming: IncomingRequest, _ status: Status, because refusal: Refusal, now: Moment
    ) {
        let request = incoming.request
        guard request.method != .ack, request.method != .cancel else { return }
        let share: RefusalShare
        if incoming.isTrusted {
            share = .trusted
        } else if incoming.sender != nil {
            share = .user
        } else {
            share = .stranger
        }
        let isCall = request.method == .invite
        noteRefused(
            RefusedCall(request, to: calleeOfToken(in: request.uri)), request.method, from: incoming.flow.remote,
            status, because: refusal, share,
            isRecorded: isCall, now: now)
    }

    /// Reports the refusal of a malformed INVITE to operators.
    func noteMalformed(_ frame: MessageFrame, _ status: Status, on flow: Flow, now: Moment) {
        guard frame.isINVITE else { return }
        noteRefused(
            RefusedCall(malformed: frame, callee: calleeOfToken), .invite, from: flow.remote, status, because: .unfit,
            isTrusted(flow) ? .trusted : .stranger, isRecorded: true, now: now)
    }

    private func noteRefused(
        _ call: @autoclosure () -> RefusedCall, _ method: Method, from source: Endpoint, _ status: Status,
        because refusal: Refusal, _ share: RefusalShare, isRecorded: Bool, now: Moment
    ) {
        if method == .invite || refusal.isOfAnyMethod { output.counters.count(Counter(refusal)) }
        let telling = access.refusals.refused(share, at: source.address, now: now.instant)
        guard telling.suppressed != nil || isRecorded && telling.isRecorded else { return }
        let call = call()
        if let suppressed = telling.suppressed {
            if method == .invite {
                tellRefused(call, from: source, status, because: refusal, suppressed: suppressed)
            } else {
                log.notice(
                    "request refused",
                    [
                        .aor: .described(call.callee), .caller: .bytes(call.caller), .source: .described(source),
                        .callID: .bytes(call.callID), .method: .bytes(method.name), .status: .number(Int(status.code)),
                        .reason: .text(refusal.words), .suppressed: .number(suppressed),
                    ])
            }
        }
        guard isRecorded, telling.isRecorded else { return }
        record(.call, call, from: source, status, refusal, share, now: now)
    }

    /// Writes the refusal of a REGISTER into the timeline, but not into the log.
    ///
    /// - Returns: the number of log lines suppressed since the last log line; `nil` if the new log line must be
    ///   suppressed too.
    func noteRefusedRegister(
        _ incoming: IncomingRequest, of aor: AddressOfRecord?, _ status: Status, because refusal: Refusal,
        _ reason: StaticString, now: Moment
    ) -> Int? {
        let telling = access.refusals.refused(
            incoming.isTrusted ? .trusted : .stranger, at: incoming.flow.remote.address, now: now.instant)
        if telling.isRecorded {
            let call = RefusedCall(incoming.request, to: aor)
            record(
                .register, call, from: incoming.flow.remote, status, refusal,
                incoming.isTrusted ? .trusted : .stranger, reason: "\(reason)", now: now)
        }
        return telling.suppressed
    }

    private func record(
        _ kind: TimelineRecord.Kind, _ call: RefusedCall, from source: Endpoint, _ status: Status, _ refusal: Refusal,
        _ share: RefusalShare, reason: String = "", now: Moment
    ) {
        guard ledger.timeline.isOn else { return }
        var record = TimelineRecord(
            id: .absent, kind: kind, user: call.callee.user, host: call.callee.host, device: .nobody, callRef: nil,
            callID: call.callID, requestedAt: now.date, omission: nil)
        record.source = ByteString("\(source)")
        record.peer = call.caller
        record.reason = reason
        record.refused(refusal, status.code, share: share)
        act(.trace([.record(record)]))
    }

    // MARK: Who was asked for a password

    /// Remembers that an INVITE without password was challenged, in case the sender never answers the challenge. The
    /// challenge of a registered phone's INVITE is not remembered, because a registered phone is challenged for each
    /// INVITE.
    func noteAsked(_ incoming: IncomingRequest, now: Moment) {
        let request = incoming.request
        guard request.method == .invite, !isPhoneOfOurs(incoming) else { return }
        let due = access.refusals.asked(
            { RefusedCall(request, to: calleeOfToken(in: request.uri)) }, callID: request.callID,
            at: incoming.flow.remote, now: now.instant)
        if let due { _ = output.timers.schedule(.refusalsDue, at: due) }
    }

    /// Whether the user in From is registered from the source address and port of the request.
    private func isPhoneOfOurs(_ incoming: IncomingRequest) -> Bool {
        guard let home = identity.home(of: incoming.request.from.uri),
            let user = AddressOfRecord(incoming.request.from.uri, home: home)
        else { return false }
        let source = incoming.flow.remote
        return registrar.bindings.device(of: user) { $0.remote == source } != nil
    }

    /// Reports challenged calls as refused if the sender has not authenticated in time.
    func refusalsDue(now: Moment) {
        let (silent, next) = access.refusals.silent(now: now.instant)
        for asked in silent {
            noteRefused(
                asked.call, .invite, from: asked.source, .proxyAuthenticationRequired, because: .notTrusted, .stranger,
                isRecorded: true, now: now)
        }
        if let next { _ = output.timers.schedule(.refusalsDue, at: next) }
    }
}

/// Refuses requests with a Warning header field, which tells the sender the reason.
extension ProxyEngine {
    /// Refuses a request that breaks a rule, with a Warning for the sender and a log line for the operator.
    func refuse(_ incoming: IncomingRequest, by breach: RequestRules.Breach, now: Moment) {
        refuse(incoming, breach.status, because: breach.refusal, fields: [warning(breach.warning)], now: now)
    }

    /// A Warning with free text (code 399, RFC 3261 section 20.43).
    func warning(_ text: String) -> AddedField {
        .warning(399, by: identity.domains.first ?? ByteString("sippushd"), text)
    }

    /// The text of the Warning for a call that failed because no phone can answer a peer's challenge (T9.17).
    static let unanswerable = "The next server asks for a password in a realm of this proxy"
}

extension Refusal {
    /// Whether the metric of this refusal also counts requests other than INVITE.
    fileprivate var isOfAnyMethod: Bool {
        switch self {
        case .needsTrust, .command, .otherName, .needsDialog: true
        case .foreignDomain, .otherIdentity, .forgedRoute, .unknownUser, .notTrusted, .wrongPassword, .noContact,
            .notSecure, .otherTenant, .tenantLimit, .calleeLimit, .callerLimit, .tooManyCalls, .noRoom, .overload,
            .stoodStill, .upstreamAway, .draining,
            .wrongLogins, .usersAway, .keysAway, .register, .loop, .unfit:
            false
        }
    }

    /// The reason for the refusal of a request, in words for log lines.
    var words: String {
        switch self {
        case .foreignDomain: "the domain is not listed under domains"
        case .otherIdentity: "From names another user than the password"
        case .forgedRoute: "its Route was not written by this daemon"
        case .needsTrust: "only trusted peers may send this method outside a dialog"
        case .command: "only trusted peers may send a NOTIFY of this event"
        case .otherName: "From differs from the request that began the dialog"
        case .needsDialog: "the method needs a dialog, but To has no tag"
        case .otherTenant: "the sender belongs to another domain, which is separate under tenants"
        case .unknownUser: "no such user"
        case .notTrusted: "not listed under trusted, and sent no password"
        case .wrongPassword: "wrong user or password"
        case .noContact: "the user has no contact"
        case .notSecure: "a sips: address needs TLS on each hop"
        case .calleeLimit: "too many calls for this user"
        case .callerLimit: "too many calls of this caller"
        case .tenantLimit: "more active calls of this domain than tenants.*.calls allows"
        case .tooManyCalls: "more active calls than limits.calls allows"
        case .noRoom: "no room for more waiting requests"
        case .overload: "the daemon is overloaded"
        case .stoodStill: "the node stood still, and asks what other nodes have taken over"
        case .upstreamAway: "the upstream does not answer"
        case .draining: "the daemon is shutting down"
        case .wrongLogins: "too many wrong passwords"
        case .usersAway: "no source of users can say now who the user is"
        case .keysAway: "the keys for bearer tokens could not be read yet"
        case .register: "not accepted"
        case .loop: "the request came back to the daemon, or passed too many hops"
        case .unfit: "the request has something that the daemon does not support"
        }
    }
}

extension Counter {
    /// The counter that counts refusals for the given reason.
    init(_ refusal: Refusal) {
        switch refusal {
        case .foreignDomain: self = .callForeignDomain
        case .otherIdentity: self = .callOtherIdentity
        case .forgedRoute: self = .callForgedRoute
        case .needsTrust: self = .refusedWithoutTrust
        case .command: self = .refusedCommand
        case .otherName: self = .refusedName
        case .needsDialog: self = .refusedWithoutDialog
        case .otherTenant: self = .callOtherTenant
        case .unknownUser: self = .callUnknownUser
        case .notTrusted: self = .callNotTrusted
        case .wrongPassword: self = .callWrongPassword
        case .noContact: self = .callNoContact
        case .notSecure: self = .callNotSecure
        case .calleeLimit: self = .callCalleeLimit
        case .callerLimit: self = .callCallerLimit
        case .tenantLimit: self = .callTenantLimit
        case .tooManyCalls: self = .callTooManyCalls
        case .noRoom: self = .callNoRoom
        case .overload: self = .callOverload
        case .stoodStill: self = .callStoodStill
        case .upstreamAway: self = .callUpstreamAway
        case .draining: self = .callDraining
        case .wrongLogins, .register: self = .callWrongLogins
        case .usersAway: self = .callUsersAway
        case .keysAway: self = .callKeysAway
        case .loop: self = .callLoop
        case .unfit: self = .callUnfit
        }
    }
}

extension MessageFrame {
    /// Whether the start line of the message begins with INVITE.
    fileprivate var isINVITE: Bool { bytes.hasPrefix("INVITE ") }
}
