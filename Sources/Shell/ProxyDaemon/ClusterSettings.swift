package import Addressing
import Bytes
import HTTPServices
import ProxyPolicy
import Routing
package import Settings

/// The settings under `cluster`: this daemon as one of several nodes on one database.
package struct ClusterSettings: SettingsGroup, Equatable {
    package var node: String?
    package var listen: Endpoint?
    package var advertise: Endpoint?
    package var certFile: String?
    package var keyFile: String?
    package var caFile: String?

    package init() {}

    package static let schema: [Setting<ClusterSettings>] = [
        .value(
            "node", \.node, nodeType, example: "node-a",
            "The name of this node: 1 to 32 letters, digits, - and _. No other node has the same name. With `node`, the daemon is one of several on one database (`postgresql`)."
        ),
        .value(
            "listen", \.listen, placeType, example: "192.0.2.21:5071",
            "The address and port at which this node accepts SIP and HTTP over TLS from other nodes. Only owners of a certificate from `ca-file` can connect."
        ),
        .value(
            "advertise", \.advertise, advertisedType, example: "192.0.2.21:5071",
            "The IP address and port at which other nodes reach `listen`. The node's certificate must contain this address. By default, other nodes use the address in `listen`, or this machine's first address if `listen` has 0.0.0.0 or [::]."
        ),
        .path(
            "cert-file", \.certFile, example: "/etc/sippushd/cluster-cert.pem",
            "This node's certificate, PEM, for connections from and to other nodes. `sippushd cluster cert` makes it. After SIGHUP, the daemon reads the files of `cluster` again."
        ),
        .path("key-file", \.keyFile, example: "/etc/sippushd/cluster-key.pem", "The certificate's private key, PEM."),
        .path(
            "ca-file", \.caFile, example: "/etc/sippushd/cluster-ca.pem",
            "The certificate authority of the cluster, PEM. Each owner of a certificate from this authority is a node, so the authority must issue no other certificates."
        ),
    ]

    /// Whether the text can be the name of a node.
    package static func isName(_ text: String) -> Bool {
        (1...32).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    private static let nodeType = SettingType<String>.parsed("name") { text throws(SettingComplaint) in
        guard isName(text) else { throw SettingComplaint("expected 1 to 32 letters, digits, - and _") }
        return text
    } print: {
        $0
    }

    private static let placeType = SettingType<Endpoint>.parsed("address:port") { text throws(SettingComplaint) in
        guard let endpoint = Endpoint(text) else {
            throw SettingComplaint("expected ADDRESS:PORT, IPv6 in brackets")
        }
        return endpoint
    } print: {
        $0.description
    }

    private static let advertisedType = SettingType<Endpoint>.parsed("address:port") {
        text throws(SettingComplaint) in
        guard let endpoint = Endpoint(text), endpoint.port != 0, !endpoint.address.isUnspecified else {
            throw SettingComplaint(
                "expected the IP address and port at which other nodes reach this node, IPv6 in brackets")
        }
        return endpoint
    } print: {
        $0.description
    }

    package func complaints() -> [SettingComplaint] {
        let needed = [
            ("node", node != nil), ("listen", listen != nil), ("cert-file", certFile != nil),
            ("key-file", keyFile != nil), ("ca-file", caFile != nil),
        ]
        let missing = needed.filter { !$0.1 }.map(\.0)
        guard !missing.isEmpty, let set = needed.first(where: \.1)?.0 ?? advertise.map({ _ in "advertise" }) else {
            return []
        }
        let files = missing.contains { $0.hasSuffix("-file") } ? "; sippushd cluster cert makes the files" : ""
        return [SettingComplaint("expected \(missing.joined(separator: ", ")) as well\(files)", key: set)]
    }
}

extension DaemonSettings {
    /// The complaints about settings that do not fit `cluster`.
    var clusterComplaints: [SettingComplaint] {
        guard let place = cluster.listen else { return [] }
        var found: [SettingComplaint] = []
        if postgreSQL.connection == nil {
            found.append(
                SettingComplaint(
                    "expected postgresql.connection, because the nodes share one database: set it, or remove cluster",
                    key: "cluster"))
        }
        let others = listen.filter { $0.transport != .udp }.map(\.endpoint) + api.listen + admin.listen
        if place.port != 0, others.contains(place) {
            found.append(
                SettingComplaint(
                    "expected a cluster.listen of its own, but listen, api.listen or admin.listen has \(place)",
                    key: "cluster"))
        }
        let authorities = [("tls.ca-file", tls.caFile), ("tls.client-ca-file", tls.clientCAFile)]
        if let (key, _) = authorities.first(where: { $0.1 != nil && $0.1 == cluster.caFile }) {
            found.append(
                SettingComplaint(
                    "expected a cluster.ca-file for nodes only, but \(key) names the same file: sippushd cluster cert makes one",
                    key: "cluster"))
        }
        return found
    }

    /// This daemon as a node of the cluster; `nil` without a cluster.
    ///
    /// - Parameters:
    ///   - listener: the listener for other nodes, with the address by which other nodes reach it.
    ///   - run: the number of this run, which no other run of any node has.
    ///   - secret: the key of the hashes that the nodes exchange.
    /// - Returns: the node for the engine's settings.
    func ownNode(at listener: Listener?, run: UInt32, secret: SipHash.Key) -> OwnNode? {
        guard let name = cluster.node, let listener else { return nil }
        return OwnNode(
            name: name, place: listener.sentBy.lowercased(), listener: listener.number, run: run, secret: secret)
    }
}
