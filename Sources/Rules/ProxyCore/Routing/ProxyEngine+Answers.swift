import Bytes
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Responses that the daemon itself makes.
extension ProxyEngine {
    /// Sends a final response of the daemon. The response is stateless if the request has no transaction.
    func refuse(_ incoming: IncomingRequest, _ status: Status, fields: [AddedField] = [], now: Moment) {
        guard let server = incoming.server else { return sendStateless(incoming, status, fields: fields) }
        respond(server, status, incoming.response(status, toTag: tags.next(), fields: fields), now: now)
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
        counters.count(Counter(status))
        withTransactions { $0.respond(server, status: status, bytes: bytes, now: now.instant, into: &$1) }
    }

    /// Sends a stateless final response. Each copy of the request gets the same response, and no timer resends it.
    ///
    /// The response is shortened if it exceeds the limit for unproved senders (T4.1): fields are dropped from the
    /// front. A challenge keeps one field, or is not sent.
    func sendStateless(_ incoming: IncomingRequest, _ status: Status, fields: [AddedField] = []) {
        guard incoming.request.method != .ack else { return }
        let tag = tags.stateless(for: incoming.request)
        let limit = incoming.answerLimit
        let isChallenge = status == .unauthorized || status == .proxyAuthenticationRequired
        var fields = fields
        var bytes = incoming.response(status, toTag: tag, fields: fields)
        while bytes.count > limit {
            guard fields.count > (isChallenge ? 1 : 0) else { return }
            fields.removeFirst()
            bytes = incoming.response(status, toTag: tag, fields: fields)
        }
        counters.count(Counter(status))
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
}
