package import Addressing
package import Bytes
package import SIPDialogs
import SIPGrammar

/// A flow of one node. The node encrypts the flow token into the user part of the contact's Path, by which the other
/// nodes reach the flow (RFC 5626 section 5.2, RFC 3327).
package struct FlowToken: Hashable, Sendable {
    /// The number of the node's run. A connection of an earlier run is closed.
    package let run: UInt32
    /// The flow; `nil` if a newer version wrote it in a form that this version does not know.
    package let flow: Flow?
    /// The binding of the phone; `nil` in the Path of an older version.
    package let binding: DeviceID?

    package init(run: UInt32, flow: Flow, binding: DeviceID?) {
        self.run = run
        self.flow = flow
        self.binding = binding
    }

    fileprivate var encoded: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(big: UInt64(run), count: 4)
        flow?.pack(into: &bytes)
        if let binding { bytes.append(big: binding.rawValue, count: 8) }
        return bytes
    }

    /// Reads the bytes of a flow token. A newer version may append bytes.
    fileprivate init?(_ plain: [UInt8]) {
        let bytes = plain.span
        guard bytes.count > 4 else { return nil }
        var run: UInt32 = 0
        for index in 0..<4 { run = run << 8 | UInt32(bytes[index]) }
        var index = 4
        self.run = run
        flow = Flow(packed: bytes, from: &index)
        guard flow != nil, bytes.count - index >= 8 else {
            binding = nil
            return
        }
        var number: UInt64 = 0
        for place in index..<index + 8 { number = number << 8 | UInt64(bytes[place]) }
        binding = DeviceID(rawValue: number)
    }
}

extension DialogSeal {
    /// The associated data that keeps flow tokens and dialog tokens apart.
    private static let purpose = ByteString("flow token")

    /// Encrypts a flow token for the node at the given `host:port`.
    package func seal(_ token: FlowToken, at place: ByteString) -> [UInt8] {
        seal(token.encoded, Self.purpose, place)
    }

    /// Decrypts a flow token; `nil` if no node of this cluster encrypted the text for the node at `place`.
    package func openFlow(_ text: ByteString, at place: ByteString) -> FlowToken? {
        open(text, Self.purpose, place).flatMap { FlowToken($0.plain) }
    }
}
