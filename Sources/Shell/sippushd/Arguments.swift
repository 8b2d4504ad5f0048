import Bytes
import Control
import ProxyDaemon

func timeText(_ seconds: Int64) -> String {
    Words.second(seconds)
}

func pathSegment(_ text: String) -> String {
    var bytes: [UInt8] = []
    for byte in text.utf8 {
        if byte.isASCIIDigit || byte.isASCIILetter { bytes.append(byte) } else { bytes.append(percentEncoded: byte) }
    }
    return String(decoding: bytes, as: UTF8.self)
}

/// The placeholder for an address-of-record in help texts.
let userArgument = "USER[@DOMAIN]"

extension Command.Invocation {
    /// Reads an argument as an address-of-record. A user without a domain belongs to the daemon's first domain.
    func user(_ index: Int) throws(Command.Failure) -> String {
        let text = arguments[index]
        guard !text.contains("@"), !text.isEmpty, let domain = try settings().domains.first else { return text }
        return "\(text)@\(domain)"
    }

    func onlyUser() throws(Command.Failure) -> String {
        _ = try onlyArgument(userArgument)
        return try user(0)
    }

    func expect(arguments count: Int) throws(Command.Failure) {
        guard arguments.count == count else {
            throw .usage("expected \(count == 1 ? "1 argument" : "\(count) arguments"), found \(arguments.count)")
        }
    }

    func onlyArgument(_ name: String) throws(Command.Failure) -> String {
        guard arguments.count == 1, let first = arguments.first else { throw .usage("expected one argument: \(name)") }
        return first
    }
}
