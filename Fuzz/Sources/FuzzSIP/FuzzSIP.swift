import Addressing
import Bytes
import SIPGrammar
import SIPMessage

/// Checks that no input crashes the message reader, and that each accepted message survives writing and reading.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzSIP(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = unsafe Array(UnsafeBufferPointer(start: start, count: count))
    for isStream in [false, true] {
        switch MessageReader().read(bytes.span, isStream: isStream) {
        case .request(let request): check(request)
        case .response(let response): check(response)
        case .unusable(let unusable): check(unusable)
        }
    }
    return 0
}

private let source = Endpoint(IPAddress(v4: 0x0a00_0009), 40_000)

/// Reads a written message again, which must succeed unless the additions made it too large.
private func reread(_ bytes: [UInt8]) -> ReadMessage? {
    let message = MessageReader().read(bytes.span, isStream: true)
    guard case .unusable(let unusable) = message else { return message }
    switch unusable.reason {
    case .headTooLarge, .tooManyHeaders: return nil
    default: fatalError("not read again: \(unusable.reason)")
    }
}

private func check(_ request: SIPRequest) {
    touch(request)
    var edits = RequestEdits(
        requestURI: request.uri.text, via: ByteString("SIP/2.0/UDP us;branch=z9hG4bKx"), maxForwards: 69)
    edits.recordRoutes = [ByteString("<sip:us;lr>")]
    edits.topViaAddition = request.viaAddition(source: source)
    edits.keepsPushParameters = request.method == .invite
    let outgoing = request.forwarded(edits)
    if let message = reread(outgoing.bytes) {
        guard case .request(let sent) = message else { fatalError("a request became a response") }
        precondition(sent.method == request.method && sent.cseq == request.cseq, "another method")
        precondition(sent.callID == request.callID, "another Call-ID")
        precondition(sent.frame.firstValue(of: .from) == request.frame.firstValue(of: .from), "another From")
        precondition(sent.frame.firstValue(of: .to) == request.frame.firstValue(of: .to), "another To")
        precondition(sent.frame.body == request.frame.body, "another body")
        precondition(sent.contacts.count == request.contacts.count, "other contacts")
        precondition(sent.routes.count == request.routes.count, "other routes")
    }
    if request.method != .ack, let message = reread(outgoing.cancellation(reasons: []).bytes) {
        guard case .request(let cancel) = message else { fatalError("CANCEL is no request") }
        precondition(cancel.method == .cancel && cancel.callID == request.callID, "CANCEL of another request")
    }
    answer(request.frame, tag: request.to.tag == nil, callID: request.callID, addition: edits.topViaAddition)
}

private func answer(_ frame: MessageFrame, tag: Bool, callID: ByteString, addition: ViaAddition) {
    let bytes = frame.response(.ok, toTag: tag ? ToTag(7) : nil, viaAddition: addition)
    guard let message = reread(bytes) else { return }
    guard case .response(let response) = message else { fatalError("a response became a request") }
    precondition(response.callID == callID && response.to.tag != nil, "a response to another request")
    touch(response.via.parameters)
}

private func check(_ response: SIPResponse) {
    touch(response.via.parameters)
    touch(response.to)
    let bytes = response.withoutTopVia()
    guard response.viaCount > 1 else { return }
    // The second Via of the response was not parsed before, and may be malformed.
    guard case .response(let relayed) = MessageReader().read(bytes.span, isStream: true) else { return }
    precondition(relayed.viaCount == response.viaCount - 1, "Via values lost or made")
    precondition(relayed.callID == response.callID && relayed.cseq == response.cseq, "another response")
    precondition(relayed.frame.body == response.frame.body, "another body")
}

private func check(_ unusable: UnusableMessage) {
    guard let answer = unusable.answer else { return }
    _ = answer.frame.response(
        answer.status, toTag: ToTag(7), viaAddition: answer.frame.viaAddition(source: source))
    precondition(answer.frame.values(of: .via).isEmpty == false, "an answer without Via")
}

// MARK: Reading every byte of what was decoded, for the address sanitizer

nonisolated(unsafe) private var sum = 0

private func touch(_ bytes: ByteString) {
    bytes.withSpan { span in for index in 0..<span.count { unsafe sum &+= Int(span[index]) } }
}

private func touch(_ parameters: Parameters) {
    for parameter in parameters {
        touch(parameter.name)
        if let value = parameter.value { touch(value.percentDecoded().unquoted()) }
    }
}

private func touch(_ uri: SIPURI) {
    touch(uri.host)
    touch(uri.text.withoutPushParameters())
    if let user = uri.user { touch(user) }
    if let headers = uri.headers { touch(headers) }
    touch(uri.parameters)
}

private func touch(_ address: NameAddress) {
    if let name = address.displayName { touch(name.unquoted()) }
    touch(address.uri)
    touch(address.parameters)
}

private func touch(_ request: SIPRequest) {
    touch(request.uri)
    touch(request.via.parameters)
    for address in [request.from, request.to] + request.routes + request.contacts + request.path { touch(address) }
    for credentials in request.authorization + request.proxyAuthorization {
        touch(credentials.username)
        touch(credentials.response)
    }
}
