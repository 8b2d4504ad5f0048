import Glibc

/// A port that stays reserved for a program, even while the program restarts. No other `ReservedPort` gets the same
/// port at the same time.
///
/// A UDP socket and a TCP socket reserve the port. The UDP socket is bound at an address without another use, where
/// only one process can bind the port. The TCP socket of a ``ReservedPort`` is bound to all addresses, and accepts no
/// connections. The program under test can bind the same port at other addresses. Reserved ports are below the range
/// from which the kernel assigns ports. `Tests/Trust/ports.py` reserves ports in the same way.
package final class ReservedPort: Sendable {
    package let number: UInt16
    private let descriptors: [Int32]

    /// The address of UDP sockets that reserve ports, which no program uses otherwise: 127.255.255.254.
    static let keeper: UInt32 = 0x7fff_fffe
    package static let range: Range<UInt16> = 20_000..<32_000

    /// Reserves a port.
    ///
    /// - Returns: the reservation; `nil` if the port is already reserved or in use.
    package init?(_ number: UInt16) {
        let datagrams = Self.bound(SOCK_DGRAM, Self.keeper, number, isShared: false)
        // The TCP socket does not listen, so that the program under test can listen on the same port.
        let stream = Self.bound(SOCK_STREAM, 0, number, isShared: true)
        let descriptors = [datagrams, stream].compactMap(\.self)
        guard descriptors.count == 2,
            !LocalPorts.used(by: "udp").union(LocalPorts.used(by: "udp6")).contains(Int(number))
        else {
            for descriptor in descriptors { close(descriptor) }
            return nil
        }
        self.number = number
        self.descriptors = descriptors
    }

    /// Reserves the first free port in ``range``; `nil` if no port is free.
    package static func any() -> ReservedPort? {
        for number in range {
            if let port = ReservedPort(number) { return port }
        }
        return nil
    }

    deinit {
        for descriptor in descriptors { close(descriptor) }
    }

    private static func bound(_ kind: __socket_type, _ address: UInt32, _ port: UInt16, isShared: Bool) -> Int32? {
        let descriptor = socket(AF_INET, Int32(kind.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        var yes: Int32 = 1
        if isShared {
            _ = unsafe setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        }
        var place = sockaddr_in()
        place.sin_family = sa_family_t(AF_INET)
        place.sin_port = port.bigEndian
        place.sin_addr.s_addr = address.bigEndian
        let status = unsafe withUnsafePointer(to: &place) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        if status == 0 { return descriptor }
        close(descriptor)
        return nil
    }
}
