package import Bytes

/// A SIP method, case-sensitive (RFC 3261 section 7.1); an unknown method is stored by its name.
package enum Method: Hashable, Sendable {
    case invite, ack, bye, cancel, register, options, prack, update, info, refer, message, subscribe, notify, publish
    case other(ByteString)

    /// Written by hand, because the compiler's own `==` is slower in other modules.
    @inlinable
    package static func == (left: Method, right: Method) -> Bool {
        switch (left, right) {
        case (.other(let name), .other(let other)): name == other
        default: left.number == right.number
        }
    }

    @inlinable
    var number: UInt8 {
        switch self {
        case .invite: 0
        case .ack: 1
        case .bye: 2
        case .cancel: 3
        case .register: 4
        case .options: 5
        case .prack: 6
        case .update: 7
        case .info: 8
        case .refer: 9
        case .message: 10
        case .subscribe: 11
        case .notify: 12
        case .publish: 13
        case .other: 14
        }
    }

    package init(_ name: ByteString) {
        self =
            switch name.count {
            case 3: name == "ACK" ? .ack : name == "BYE" ? .bye : .other(name)
            case 4: name == "INFO" ? .info : .other(name)
            case 5: name == "PRACK" ? .prack : name == "REFER" ? .refer : .other(name)
            case 6:
                name == "INVITE"
                    ? .invite
                    : name == "CANCEL"
                        ? .cancel : name == "UPDATE" ? .update : name == "NOTIFY" ? .notify : .other(name)
            case 7:
                name == "OPTIONS"
                    ? .options : name == "MESSAGE" ? .message : name == "PUBLISH" ? .publish : .other(name)
            case 8: name == "REGISTER" ? .register : .other(name)
            case 9: name == "SUBSCRIBE" ? .subscribe : .other(name)
            default: .other(name)
            }
    }

    package func append(to out: inout ByteSink) {
        if case .other(let name) = self { out.append(name) } else { out.append(knownName) }
    }

    package func append(to out: inout [UInt8]) {
        if case .other(let name) = self { out.append(name) } else { out.append(knownName) }
    }

    package var name: ByteString {
        var name: [UInt8] = []
        append(to: &name)
        return ByteString(name)
    }

    private var knownName: StaticString {
        switch self {
        case .invite: "INVITE"
        case .ack: "ACK"
        case .bye: "BYE"
        case .cancel: "CANCEL"
        case .register: "REGISTER"
        case .options: "OPTIONS"
        case .prack: "PRACK"
        case .update: "UPDATE"
        case .info: "INFO"
        case .refer: "REFER"
        case .message: "MESSAGE"
        case .subscribe: "SUBSCRIBE"
        case .notify: "NOTIFY"
        case .publish: "PUBLISH"
        case .other: ""
        }
    }
}

/// The value of a CSeq header field, with a number below 2^31 (RFC 3261 section 8.1.1.5).
package struct CSeq: Hashable, Sendable {
    package let number: UInt32
    package let method: Method

    package init(number: UInt32, method: Method) {
        self.number = number
        self.method = method
    }
}
