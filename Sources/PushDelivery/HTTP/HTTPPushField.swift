internal import SIPGrammar
internal import Timekeeping

/// What a template may name between `{{` and `}}`.
package enum HTTPPushField: String, Hashable, Sendable, CaseIterable {
    case token, param, type
    case callRef = "call-ref"
    case callID = "call-id"
    case caller
    case displayName = "display-name"
    case date, badge, ttl
    case pushID = "push-id"
    case calls

    static var names: String { allCases.map(\.rawValue).joined(separator: ", ") }
}

/// What the fields of one push hold.
struct HTTPPushValues {
    let context: PayloadContext

    /// Bytes of what peers call themselves; of a list of calls.
    private static let textLimit = 1024
    private static let listLimit = 4096

    /// Any bytes: whoever uses them encodes them for their place.
    func text(_ field: HTTPPushField) -> ByteString {
        if let number = number(field) { return ByteString("\(number)") }
        let push = context.push
        switch field {
        case .token: return push.token.prid
        case .param: return push.token.param
        case .type:
            switch push.message {
            case .incomingCall: return ByteString("invite")
            case .missedCalls: return ByteString("missed_calls")
            }
        case .pushID: return ByteString(context.code.description)
        case .callRef: return call.map { ByteString($0.callRef.description) } ?? .empty
        case .callID: return call?.callID.cut(to: Self.textLimit) ?? .empty
        case .caller: return caller.cut(to: Self.textLimit)
        case .displayName:
            guard let call, !call.isNameless else { return .empty }
            return call.displayName.cut(to: Self.textLimit)
        case .calls: return ByteString(calls)
        case .date, .badge, .ttl: return .empty
        }
    }

    func number(_ field: HTTPPushField) -> Int64? {
        switch field {
        case .date: call?.receivedAt.seconds ?? context.now.seconds
        case .badge: Int64(context.push.badge)
        case .ttl: call == nil ? context.missedCallsTTL : context.inviteTTL
        case .token, .param, .type, .callRef, .callID, .caller, .displayName, .calls, .pushID: nil
        }
    }

    /// JSON; empty for a call.
    var calls: [UInt8] {
        switch context.push.message {
        case .incomingCall: CallList.json([], atMost: Self.listLimit)
        case .missedCalls(let calls): CallList.json(calls, atMost: Self.listLimit)
        }
    }

    private var call: IncomingCall? {
        guard case .incomingCall(let call) = context.push.message else { return nil }
        return call
    }

    /// Of a list: the last one's.
    private var caller: ByteString {
        switch context.push.message {
        case .incomingCall(let call): call.isNameless ? ByteString("anonymous") : call.callerURI
        case .missedCalls(let calls): calls.last?.remoteURI ?? .empty
        }
    }
}

extension ByteString {
    /// The first bytes, without the beginning of a character whose end would be missing.
    fileprivate func cut(to limit: Int) -> ByteString {
        guard count > limit else { return self }
        var end = limit
        while end > limit - 4, end > 0, self[end] & 0xc0 == 0x80 { end -= 1 }
        return self[0..<end]
    }
}
