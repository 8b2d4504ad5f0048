package import Bytes

/// Another node of the cluster: a daemon that uses the same store.
package struct PeerNode: Hashable, Sendable {
    package let name: String
    /// The `host:port` at which the node accepts SIP over TLS from other nodes.
    package let place: ByteString
    /// The node's present run.
    package let run: UInt32

    package init(name: String, place: ByteString, run: UInt32) {
        self.name = name
        self.place = place
        self.run = run
    }
}

/// This daemon as a node of a cluster.
package struct OwnNode: Hashable, Sendable {
    package let name: String
    /// The `host:port` at which this node accepts SIP over TLS from other nodes, in lower case.
    package let place: ByteString
    /// The listener for other nodes. Only other nodes have a certificate that the listener accepts.
    package let listener: UInt16
    /// The number of this run, which no other run of any node has.
    package let run: UInt32
    /// The key of the hashes that the nodes exchange. All nodes have the same key.
    package let secret: SipHash.Key

    /// The numbers that this run gives to messages begin with the run's number, shifted by this number of bits.
    package static let runShift = 30

    package init(name: String, place: ByteString, listener: UInt16, run: UInt32, secret: SipHash.Key) {
        self.name = name
        self.place = place
        self.listener = listener
        self.run = run
        self.secret = secret
    }
}
