import Bytes
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Responses of our own.
extension ProxyEngine {
    /// Sends a final response of our own, without a transaction when the request has none.
    func refuse(_ incoming: IncomingRequest, _ status: Status, fields: [AddedField] = [], now: Moment) {
        guard let server = incoming.server else { return sendStateless(incoming, status, fields: fields) }
        respond(server, status, incoming.response(status, toTag: tags.next(), fields: fields), now: now)
    }

    /// Our own final response to a request that was proxied, or could not be.
    ///
    /// - Parameters:
    ///   - status: for a request outside a dialog.
    ///   - request: it may be inside one.
    ///   - response: what it stands for, if anything. Its Reason says why the call failed, which no status does (RFC 6432).
    ///   - wasWoken: its phone was woken for it.
    /// - Returns: status and fields.
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

    /// Sends a final response that nothing is kept of: each copy of the request gets it again, and no timer repeats it.
    ///
    /// Where it would be too long for what the request has proved (T4.1), it goes without its fields, the first of them
    /// first, or not at all: a challenge needs one.
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

    /// To an INVITE at once; to others when there is no answer after 3.5 s (RFC 4320 section 4.1), which the transactions
    /// see to.
    func sendTrying(_ incoming: IncomingRequest, now: Moment) {
        guard let server = incoming.server else { return }
        func bytes() -> [UInt8] { incoming.response(.trying, toTag: nil, fields: []) }
        guard incoming.request.method != .invite else { return respond(server, .trying, bytes(), now: now) }
        // From what a call keeps it is made when it is due, which it seldom is.
        hold(calls.call(of: server) == nil ? bytes() : [], for: server, now: now)
    }

    /// The 100 to a request other than INVITE may go now.
    func provisionalDue(_ server: ServerTransactionID, now: Moment) {
        guard let incoming = calls.call(of: server).flatMap(revive) else { return }
        hold(incoming.response(.trying, toTag: nil, fields: []), for: server, now: now)
    }

    private func hold(_ trying: [UInt8], for server: ServerTransactionID, now: Moment) {
        withTransactions { $0.respond(server, status: .trying, bytes: trying, now: now.instant, into: &$1) }
    }

    // MARK: Fields

    static func retryAfter(seconds: Int) -> AddedField { AddedField("Retry-After", ByteString("\(seconds)")) }

    /// In whole seconds, and no sooner.
    static func retryAfter(_ wait: Duration) -> AddedField {
        retryAfter(seconds: Int(clamping: wait.components.seconds + 1))
    }

    /// What a `sips:` request is told while there is no protected hop (RFC 5630 section 4).
    var sipsNotAllowed: AddedField {
        .warning(380, by: identity.domains.first ?? ByteString("sippushd"), "SIPS Not Allowed")
    }

    static let capabilities = [
        AddedField("Allow", ByteString("INVITE, ACK, CANCEL, BYE, OPTIONS, REGISTER, MESSAGE, SUBSCRIBE, NOTIFY")),
        AddedField("Supported", ByteString("path, outbound, gruu")),
    ]
}
