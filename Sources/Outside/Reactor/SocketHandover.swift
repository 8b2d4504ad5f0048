package import Addressing
import CEvent
import Glibc

/// Bound sockets that systemd passes to this process at its start (sd_listen_fds(3)). The process can also store its
/// own sockets in systemd for the next run.
///
/// Connections and datagrams wait in the kernel while the program restarts, so no client is refused.
///
/// - The type is `@unchecked Sendable`, because it is used before its loop runs, and later on the loop's thread.
package final class SocketHandover: @unchecked Sendable {
    /// The address or file to which a socket is bound.
    package enum Place: Hashable, CustomStringConvertible, Sendable {
        case datagrams(Endpoint)
        case stream(Endpoint)
        case unix(String)
        /// A passed socket of a kind that the daemon cannot use; the text is the address of the socket.
        case other(String)

        package var description: String {
            switch self {
            case .datagrams(let endpoint): "udp \(endpoint)"
            case .stream(let endpoint): "tcp \(endpoint)"
            case .unix(let path): path
            case .other(let words): words
            }
        }
    }

    /// A passed socket that no part of the daemon uses.
    package struct Unclaimed: Sendable {
        package let place: Place
        /// The socket's name in the service manager.
        package let name: String
        /// Whether the daemon's earlier run stored the socket in the service manager.
        package var isOwn: Bool { name.hasPrefix(SocketHandover.prefix) }
    }

    private struct Socket {
        let place: Place
        let name: String
        let number: Int32
    }

    private var waiting: [Socket] = []
    /// The sockets that this run opened and that systemd can store for the next run, each with its name.
    private(set) package var opened: [(name: String, descriptor: Int32)] = []

    fileprivate static let prefix = "sippushd-"
    /// The first passed descriptor (SD_LISTEN_FDS_START).
    private static let first: Int32 = 3
    /// The maximum number of passed sockets; no service needs more.
    private static let limit = 1024

    package init() {}

    /// Takes over the sockets that the environment variables describe, unless `LISTEN_PID` names another process.
    ///
    /// - Parameters:
    ///   - environment: the environment variables of the process.
    ///   - process: the id of the process.
    ///   - first: the number of the first descriptor, for tests.
    package init(environment: [String: String], process: Int32, first: Int32? = nil) {
        guard let meant = environment["LISTEN_PID"].flatMap({ Int32($0) }), meant == process,
            let count = environment["LISTEN_FDS"].flatMap({ Int($0) }), 0...Self.limit ~= count
        else { return }
        let names = (environment["LISTEN_FDNAMES"] ?? "").split(separator: ":", omittingEmptySubsequences: false)
        for index in 0..<count {
            let number = (first ?? Self.first) + Int32(truncatingIfNeeded: index)
            let place = System.place(of: number)
            guard let place else { continue }
            waiting.append(Socket(place: place, name: index < names.count ? String(names[index]) : "", number: number))
        }
    }

    deinit {
        for socket in waiting { System.close(socket.number) }
    }

    /// The passed sockets that no part of the daemon uses, which are closed when the ``SocketHandover`` is released.
    package var unclaimed: [Unclaimed] { waiting.map { Unclaimed(place: $0.place, name: $0.name) } }

    // MARK: Taking sockets

    /// The socket bound to an address: the passed socket or, if none was passed, a new socket.
    func socket(_ kind: Int32, boundTo endpoint: Endpoint) throws(SystemError) -> Descriptor {
        let isStream = kind == System.stream
        if let number = take(isStream ? .stream(endpoint) : .datagrams(endpoint)) { return Descriptor(number) }
        let descriptor = try System.boundSocket(kind, to: endpoint)
        let place = System.localEndpoint(descriptor.number) ?? endpoint
        let words = "\(isStream ? "tcp" : "udp")-\(place)"
        // systemd allows no colons in a socket's name.
        opened.append((Self.prefix + words.replacing(":", with: "_"), descriptor.number))
        return descriptor
    }

    /// The passed socket that is bound to a file; `nil` if no such socket was passed.
    func socket(boundTo path: String) -> Descriptor? { take(.unix(path)).map { Descriptor($0) } }

    private func take(_ place: Place) -> Int32? {
        guard let index = waiting.firstIndex(where: { $0.place == place }) else { return nil }
        return waiting.remove(at: index).number
    }
}

extension System {
    /// The address to which a passed descriptor is bound; `nil` if the descriptor is not valid. The function also sets
    /// the options that this module sets on its own sockets.
    fileprivate static func place(of number: Int32) -> SocketHandover.Place? {
        guard fcntl(number, F_SETFD, FD_CLOEXEC) == 0 else { return nil }
        let flags = fcntl(number, F_GETFL)
        guard flags >= 0, fcntl(number, F_SETFL, flags | O_NONBLOCK) == 0,
            let kind = try? option(number, SOL_SOCKET, SO_TYPE), kind == stream || kind == datagram
        else { return .other("descriptor \(number), which is not a stream or datagram socket") }
        let isListening = (try? option(number, SOL_SOCKET, SO_ACCEPTCONN)) == 1
        guard let endpoint = localEndpoint(number) else {
            guard kind == stream, isListening, let path = unixPath(of: number) else {
                return .other("descriptor \(number), which is not a socket to listen on")
            }
            return .unix(path)
        }
        guard !takesBoth(number, at: endpoint) else {
            return .other("\(endpoint), which accepts IPv4 as well (its unit needs BindIPv6Only=ipv6-only)")
        }
        guard kind == stream else { return .datagrams(endpoint) }
        guard isListening else { return .other("a connection to \(endpoint)") }
        return .stream(endpoint)
    }

    /// Whether an IPv6 socket accepts IPv4 connections as well.
    private static func takesBoth(_ number: Int32, at endpoint: Endpoint) -> Bool {
        endpoint.address.isUnspecified && !endpoint.address.isV4
            && (try? option(number, Int32(IPPROTO_IPV6), IPV6_V6ONLY)) == 0
    }

    private static func unixPath(of descriptor: Int32) -> String? {
        var address = sockaddr_un()
        var length = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            let raw = UnsafeMutableRawPointer(pointer)
            return unsafe getsockname(descriptor, raw.assumingMemoryBound(to: sockaddr.self), &length)
        }
        guard result == 0, address.sun_family == sa_family_t(AF_UNIX) else { return nil }
        let bytes = unsafe withUnsafeBytes(of: &address.sun_path) { unsafe Array($0.prefix { $0 != 0 }) }
        return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
    }
}
