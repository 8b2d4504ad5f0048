import Control
import Glibc
import ProxyDaemon
import ProxyRuntime
import Timekeeping

let clusterCertCommand = Command(
    name: "cluster cert",
    summary:
        "Make the certificate with which a node of a cluster proves itself to other nodes. The first use makes the cluster's certificate authority.",
    arguments: "",
    options: [
        Command.Option(
            name: "--ca", value: "DIR",
            help: "The folder of the certificate authority: 'ca.pem' and 'ca.key'. The command makes missing ones."),
        Command.Option(
            name: "--node", value: "NAME", help: "The name of the node: 1 to 32 letters, digits, - and _."),
        Command.Option(
            name: "--address", value: "IP",
            help: "The IP address at which other nodes reach the node. A node with several addresses needs each."),
        Command.Option(
            name: "--days", value: "N",
            help: "The days until the certificate expires (default: \(ClusterCertificates.nodeDays))."),
    ],
    examples: [
        "cluster cert --ca /root/cluster-ca --node node-a --address 192.0.2.21",
        "cluster cert --ca /root/cluster-ca --node node-b --address 192.0.2.22 --address 2001:db8::22",
    ]
) { invocation throws(Command.Failure) in
    try invocation.expect(arguments: 0)
    guard let folder = invocation.value("--ca"), !folder.isEmpty, let node = invocation.value("--node") else {
        throw .usage("expected --ca, --node and --address")
    }
    var days = ClusterCertificates.nodeDays
    if let text = invocation.value("--days") {
        guard let number = Int(text) else { throw .usage("expected a number after --days, found \"\(text)\"") }
        days = number
    }
    let request: ClusterCertificates
    do throws(StartError) {
        request = try ClusterCertificates(node: node, addresses: invocation.values("--address"), days: days)
    } catch {
        throw .usage(error.description)
    }
    say(try ClusterFolder(path: folder).make(request))
}

/// A folder with a cluster's certificate authority and with the certificates of its nodes.
struct ClusterFolder {
    let path: String

    private var authority: (certificate: String, key: String) { ("\(path)/ca.pem", "\(path)/ca.key") }

    /// Makes the files of a node, and the authority if the folder has none. An existing file is never replaced.
    ///
    /// - Returns: lines for the operator about the files and the next steps.
    func make(_ request: ClusterCertificates) throws(Command.Failure) -> [String] {
        guard request.node != "ca" else { throw .failed("the files of a node ca would be those of the authority") }
        let names = (certificate: "\(path)/\(request.node).pem", key: "\(path)/\(request.node).key")
        for name in [names.certificate, names.key] where exists(name) {
            throw .failed("\(name) exists already and is unchanged; move it away to make a new certificate")
        }
        var lines = try makeAuthority()
        let pair: ClusterCertificates.Pair
        do throws(StartError) {
            pair = try request.issue(authority: authority.certificate, key: authority.key)
        } catch {
            throw .failed(error.description)
        }
        try write(pair, to: names)
        let end = ClusterCertificates.end(of: pair.certificate).map { ", until \(timeText($0.seconds))" } ?? ""
        lines.append("\(names.certificate) is the certificate of \(request.node) for \(request.places)\(end)")
        lines.append("\(names.key) is its private key")
        return lines + Self.nextSteps(request)
    }

    private func makeAuthority() throws(Command.Failure) -> [String] {
        switch (exists(authority.certificate), exists(authority.key)) {
        case (true, true): return []
        case (true, false):
            throw .failed("\(authority.key) is missing: run the command where the key of the authority is")
        case (false, true):
            throw .failed(
                "\(authority.certificate) is missing: put the certificate beside its key, or move the key away")
        case (false, false): break
        }
        guard unsafe mkdir(path, 0o700) == 0 || errno == EEXIST else {
            throw .failed("\(path) cannot be created: \(systemReason())")
        }
        let pair: ClusterCertificates.Pair
        do throws(StartError) {
            pair = try ClusterCertificates.makeAuthority()
        } catch {
            throw .failed(error.description)
        }
        try write(pair, to: authority)
        return [
            "\(authority.certificate) is the certificate of the cluster's new authority",
            "\(authority.key) is its private key; its owner can join the cluster, so keep it away from the nodes",
        ]
    }

    /// Writes the key first, so that a certificate without its key never appears.
    private func write(
        _ pair: ClusterCertificates.Pair, to names: (certificate: String, key: String)
    ) throws(Command.Failure) {
        let key = try NewFile(path: names.key, mode: 0o600)
        let certificate = try NewFile(path: names.certificate, mode: 0o644)
        try key.write(pair.key)
        try certificate.write(pair.certificate)
        try key.finish()
        try certificate.finish()
    }

    private func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }

    private static func nextSteps(_ request: ClusterCertificates) -> [String] {
        let (certificate, key, authority) = (
            "/etc/sippushd/cluster-cert.pem", "/etc/sippushd/cluster-key.pem", "/etc/sippushd/cluster-ca.pem"
        )
        let settings = request.settings(certificate: certificate, key: key, authority: authority)
        return [
            "Next: copy ca.pem, \(request.node).pem and \(request.node).key to the node, and run there as root:",
            "  install -m 0644 ca.pem \(authority)",
            "  install -m 0644 \(request.node).pem \(certificate)",
            "  install -m 0640 -g sippushd \(request.node).key \(key)",
            "Add to the settings of the node, whose store is in PostgreSQL:",
        ] + settings.map { "  " + $0 }
    }
}
