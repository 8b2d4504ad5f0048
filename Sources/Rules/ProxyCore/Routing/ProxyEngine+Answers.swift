import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Responses that the daemon itself makes.
extension ProxyEngine {
    /// Sends a final response of the daemon. The response is stateless if the request has no transaction.
    func refuse(_ incoming: IncomingRequest, _ status: Status, fields: [AddedField] = [], now: Moment) {
        guard let server = incoming.server else { return sendStateless(incoming, status, fields: fields) }
        respond(server, status, incoming.response(status, toTag: sip.tags.next(), fields: fields), now: now)
    }

    /// Chooses the daemon's own final response to a request that was forwarded or could not be forwarded.
    ///
    /// - Parameters:
    ///   - status: the status for a request outside a dialog.
    ///   - request: the request, outside or inside a dialog.
    ///   - response: the response of another server that the new one replaces, or `nil`. The Reason header fields of
    ///     that response are kept, since they say why the call failed (RFC 6432).
    ///   - wasWoken: whether a push woke the phone for this request.
    /// - Returns: the status and the fields to add.
    func ownAnswer(
        _ status: Status, to request: SIPRequest, insteadOf response: SIPResponse? = nil, wasWoken: Bool = false
    ) -> (Status, [AddedField]) {
        var fields = response?.frame.values(of: .reason).map { AddedField("Reason", $0) } ?? []
        if status == .badGateway { fields.append(warning(Self.unanswerable)) }
        guard request.to.tag != nil else { return (status, fields) }
        let inside = DialogStatus.inside(status, request.method, wasWoken: wasWoken)
        if inside == .serverError, request.method != .bye {
            fields.append(Self.retryAfter(seconds: DialogStatus.retryAfter))
        }
        return (inside, fields)
    }

    func respond(_ server: ServerTransactionID, _ status: Status, _ bytes: [UInt8], now: Moment) {
        output.counters.count(Counter(status))
        withTransactions { $0.respond(server, status: status, bytes: bytes, now: now.instant, into: &$1) }
    }

    /// Sends a stateless final response. Each copy of the request gets the same response, and no timer resends it.
    ///
    /// The response is shortened if it exceeds the limit for unproved senders (T4.1): fields are dropped from the
    /// front. A challenge keeps one field, or is not sent.
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

    /// Sends 100 to an INVITE immediately. Another request gets 100 only if there is no answer within 3.5 s (RFC 4320
    /// section 4.1), and its transaction keeps that time.
    func sendTrying(_ incoming: IncomingRequest, now: Moment) {
        guard let server = incoming.server else { return }
        func bytes() -> [UInt8] { incoming.response(.trying, toTag: nil, fields: []) }
        guard incoming.request.method != .invite else { return respond(server, .trying, bytes(), now: now) }
        // If a call keeps the request, the 100 is built only when it is due, which is rare.
        hold(calls.call(of: server) == nil ? bytes() : [], for: server, now: now)
    }

    /// A request other than INVITE has waited long enough, so its 100 is sent now.
    func provisionalDue(_ server: ServerTransactionID, now: Moment) {
        guard let incoming = calls.call(of: server).flatMap(revive) else { return }
        hold(incoming.response(.trying, toTag: nil, fields: []), for: server, now: now)
    }

    private func hold(_ trying: [UInt8], for server: ServerTransactionID, now: Moment) {
        withTransactions { $0.respond(server, status: .trying, bytes: trying, now: now.instant, into: &$1) }
    }

    // MARK: Fields

    static func retryAfter(seconds: Int) -> AddedField { AddedField("Retry-After", ByteString("\(seconds)")) }

    /// Retry-After in whole seconds, rounded up so that nobody retries too early.
    static func retryAfter(_ wait: Duration) -> AddedField {
        retryAfter(seconds: Int(clamping: wait.components.seconds + 1))
    }

    /// The Warning for a `sips:` request if there is no protected hop (RFC 5630 section 4).
    var sipsNotAllowed: AddedField {
        .warning(380, by: identity.domains.first ?? ByteString("sippushd"), "SIPS Not Allowed")
    }

    static let capabilities = [
        AddedField("Allow", ByteString("INVITE, ACK, CANCEL, BYE, OPTIONS, REGISTER, MESSAGE, SUBSCRIBE, NOTIFY")),
        AddedField("Supported", ByteString("path, outbound, gruu")),
    ]

    /// Gives a request a server transaction. If no transaction is free, this method has answered the request and
    /// returns `nil`.
    func startTransaction(
        _ incoming: IncomingRequest, cancelling invite: ServerTransactionID? = nil, now: Moment
    ) -> IncomingRequest? {
        guard incoming.server == nil, let key = incoming.key else { return incoming }
        guard
            let server = sip.transactions.begin(
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

/// Reports of refused requests. Each refusal may give a log line at the default level; a refused call also gives a
/// counter and a timeline record.
extension ProxyEngine {
    /// Refuses a request and reports the refusal.
    func refuse(
        _ incoming: IncomingRequest, _ status: Status, because refusal: Refusal,
        fields: [AddedField] = [], now: Moment
    ) {
        noteRefused(incoming, status, because: refusal, now: now)
        refuse(incoming, status, fields: fields, now: now)
    }

    /// Reports the refusal of a request. An ACK or CANCEL is not reported.
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
            RefusedCall(request), request.method, from: incoming.flow.remote, status, because: refusal, share,
            isRecorded: isCall, now: now)
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

    /// Records the refusal of a REGISTER. The caller of this method writes the log line.
    ///
    /// - Returns: the number of suppressed lines before this one; `nil` suppresses this line, too.
    func noteRefusedRegister(
        _ incoming: IncomingRequest, of aor: AddressOfRecord?, _ status: Status, because refusal: Refusal,
        _ reason: StaticString, now: Moment
    ) -> Int? {
        let telling = access.refusals.refused(
            incoming.isTrusted ? .trusted : .stranger, at: incoming.flow.remote.address, now: now.instant)
        if telling.isRecorded {
            var call = RefusedCall(incoming.request)
            if let aor { call = RefusedCall(callee: aor.shortened(), caller: call.caller, callID: call.callID) }
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

    /// The sender of an INVITE got a challenge because the INVITE had no password. A phone that registered from the
    /// same endpoint is challenged each time, so nothing is recorded for it.
    func noteAsked(_ incoming: IncomingRequest, now: Moment) {
        let request = incoming.request
        guard request.method == .invite, !isPhoneOfOurs(incoming) else { return }
        let due = access.refusals.asked(
            { RefusedCall(request) }, callID: request.callID, at: incoming.flow.remote, now: now.instant)
        if let due { _ = output.timers.schedule(.refusalsDue, at: due) }
    }

    /// Whether the user in From has registered from the endpoint that the request comes from.
    private func isPhoneOfOurs(_ incoming: IncomingRequest) -> Bool {
        guard let home = identity.home(of: incoming.request.from.uri),
            let user = AddressOfRecord(incoming.request.from.uri, home: home)
        else { return false }
        let source = incoming.flow.remote
        return registrar.bindings.device(of: user) { $0.remote == source } != nil
    }

    /// Reports the calls whose senders showed no password in time as refused.
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

extension RefusedCall {
    init(_ request: SIPRequest) {
        let uri = request.uri
        callee = AddressOfRecord(user: uri.user?.percentDecoded() ?? .empty, host: uri.host.lowercased()).shortened()
        caller =
            AddressOfRecord(request.from.uri).map { ByteString("sip:\($0)") }?.shortened()
            ?? request.from.uri.text.shortened()
        callID = request.callID.shortened()
    }
}

extension AddressOfRecord {
    fileprivate func shortened() -> AddressOfRecord {
        AddressOfRecord(user: user.shortened(), host: host.shortened())
    }
}

extension ByteString {
    fileprivate func shortened() -> ByteString { self[0..<min(count, RefusedCall.longest)].compacted() }
}

extension Refusal {
    /// Whether the counter of this refusal counts other requests than INVITE, too.
    fileprivate var isOfAnyMethod: Bool {
        switch self {
        case .needsTrust, .command, .otherName, .needsDialog: true
        case .foreignDomain, .otherIdentity, .forgedRoute, .unknownUser, .notTrusted, .wrongPassword, .noContact,
            .notSecure, .calleeLimit, .callerLimit, .tooManyCalls, .noRoom, .overload, .upstreamAway, .draining,
            .wrongLogins, .usersAway, .register, .loop, .unfit:
            false
        }
    }

    /// The reason in log lines.
    var words: String {
        switch self {
        case .foreignDomain: "the domain is none of domains"
        case .otherIdentity: "From is not the user whose password was shown"
        case .forgedRoute: "its Route is none that was made here"
        case .needsTrust: "only who is listed under trusted sends this method outside a dialog"
        case .command: "only who is listed under trusted sends a NOTIFY of this event"
        case .otherName: "From is not the one that began the dialog"
        case .needsDialog: "the method needs a dialog, and To has no tag"
        case .unknownUser: "no such user"
        case .notTrusted: "not listed under trusted, and shows no password"
        case .wrongPassword: "wrong user or password"
        case .noContact: "the user has no contact"
        case .notSecure: "it is for a sips: address, and there is no protected way"
        case .calleeLimit: "too many calls for this user"
        case .callerLimit: "too many calls of this caller"
        case .tooManyCalls: "more calls than limits.calls"
        case .noRoom: "no room for more requests"
        case .overload: "more comes than can be served"
        case .upstreamAway: "the upstream does not answer"
        case .draining: "the daemon is about to end"
        case .wrongLogins: "too many wrong passwords"
        case .usersAway: "no source of users says now who the user is"
        case .register: "not accepted"
        case .loop: "it came back, or passed too many hops"
        case .unfit: "it has something that is not supported here"
        }
    }
}

extension Counter {
    /// The counter of a refusal.
    init(_ refusal: Refusal) {
        switch refusal {
        case .foreignDomain: self = .callForeignDomain
        case .otherIdentity: self = .callOtherIdentity
        case .forgedRoute: self = .callForgedRoute
        case .needsTrust: self = .refusedWithoutTrust
        case .command: self = .refusedCommand
        case .otherName: self = .refusedName
        case .needsDialog: self = .refusedWithoutDialog
        case .unknownUser: self = .callUnknownUser
        case .notTrusted: self = .callNotTrusted
        case .wrongPassword: self = .callWrongPassword
        case .noContact: self = .callNoContact
        case .notSecure: self = .callNotSecure
        case .calleeLimit: self = .callCalleeLimit
        case .callerLimit: self = .callCallerLimit
        case .tooManyCalls: self = .callTooManyCalls
        case .noRoom: self = .callNoRoom
        case .overload: self = .callOverload
        case .upstreamAway: self = .callUpstreamAway
        case .draining: self = .callDraining
        case .wrongLogins, .register: self = .callWrongLogins
        case .usersAway: self = .callUsersAway
        case .loop: self = .callLoop
        case .unfit: self = .callUnfit
        }
    }
}
