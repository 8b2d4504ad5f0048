import Addressing
import SIPTransactions
import Testing

@Suite("Addresses that an answer may come from (T9.20)")
struct ClientPlacesTests {
    private static let phone = Endpoint(IPAddress(v4: 0xc000_0205), 40_000)
    private static let beside = Endpoint(phone.address, 40_001)
    private static let elsewhere = Endpoint(IPAddress(v4: 0xc000_0299), 40_000)
    private static let server = ServerNumber(7)

    private static func flow(
        _ connection: UInt64 = 0, _ transport: Transport = .tcp, at remote: Endpoint = phone,
        server: ServerNumber = .none
    ) -> Flow {
        Flow(transport: transport, listener: 1, connection: connection, remote: remote, server: server)
    }

    private static func accepts(
        _ places: ClientPlaces, _ flow: Flow, by sender: ClientPlaces.Sender = .unknown
    ) -> Bool {
        places.accepts(responseFrom: flow, by: sender)
    }

    // MARK: The target of the request

    @Test func `over UDP the source counts`() {
        let places = ClientPlaces(sentOn: Self.flow(0, .udp))
        #expect(Self.accepts(places, Self.flow(0, .udp)))
        #expect(!Self.accepts(places, Self.flow(0, .udp, at: Self.beside)))
        #expect(!Self.accepts(places, Self.flow(0, .udp, at: Self.elsewhere)))
        #expect(!Self.accepts(places, Self.flow(3, .tcp)))
    }

    @Test func `over a connection that connection counts, and no other from the same place`() {
        let places = ClientPlaces(sentOn: Self.flow(3))
        #expect(Self.accepts(places, Self.flow(3)))
        #expect(!Self.accepts(places, Self.flow(4)))
        #expect(!Self.accepts(places, Self.flow(0, .udp)))
    }

    @Test func `a request without a connection is answered on any to that place, over TLS with its certificate`() {
        let plain = ClientPlaces(sentOn: Self.flow())
        #expect(Self.accepts(plain, Self.flow(9)))
        #expect(!Self.accepts(plain, Self.flow(9, at: Self.beside)))
        let secure = ClientPlaces(sentOn: Self.flow(0, .tls, server: Self.server))
        #expect(Self.accepts(secure, Self.flow(9, .tls, server: Self.server)))
        #expect(!Self.accepts(secure, Self.flow(9, .tls)))
        #expect(!Self.accepts(secure, Self.flow(9, .tls, server: ServerNumber(8))))
    }

    @Test func `the sender is asked for only if the address differs`() {
        let places = ClientPlaces(sentOn: Self.flow(3))
        var questions = 0
        func sender() -> ClientPlaces.Sender {
            questions += 1
            return .unknown
        }
        #expect(places.accepts(responseFrom: Self.flow(3), by: sender()) && questions == 0)
        #expect(!places.accepts(responseFrom: Self.flow(4), by: sender()) && questions == 1)
    }

    // MARK: Connections that end, phones that move

    @Test func `after its connection has ended, the next one from the same place counts`() {
        var places = ClientPlaces(sentOn: Self.flow(3))
        #expect(!places.wasLost)
        places.connectionEnded()
        #expect(places.wasLost && places.present == Self.flow(3))
        #expect(Self.accepts(places, Self.flow(4)))
        #expect(!Self.accepts(places, Self.flow(4, at: Self.beside)))
        #expect(!Self.accepts(places, Self.flow(4, at: Self.elsewhere)))
        #expect(!Self.accepts(places, Self.flow(4, .tls)))
        #expect(Self.accepts(ClientPlaces(sentOn: Self.flow(3).closed), Self.flow(4)))
    }

    @Test func `a peer that is reached elsewhere may answer there, and where it was first`() {
        var places = ClientPlaces(sentOn: Self.flow(3))
        let next = Self.flow(5, at: Self.elsewhere)
        places.moved(to: next)
        #expect(places.present == next)
        #expect(Self.accepts(places, next) && Self.accepts(places, Self.flow(3)))
        #expect(!Self.accepts(places, Self.flow(4)) && !Self.accepts(places, Self.flow(6, at: Self.elsewhere)))
        places.moved(to: Self.flow(7, at: Self.beside))
        #expect(Self.accepts(places, Self.flow(3)) && Self.accepts(places, Self.flow(7, at: Self.beside)))
    }

    @Test func `a phone whose connection ended before it moved may answer on any connection from the first address`() {
        var places = ClientPlaces(sentOn: Self.flow(3))
        places.connectionEnded()
        places.moved(to: Self.flow(5, at: Self.elsewhere))
        #expect(places.wasLost)
        #expect(Self.accepts(places, Self.flow(4)))
        #expect(!Self.accepts(places, Self.flow(4, at: Self.beside)))
    }

    @Test func `a phone that is called by another flow may answer there, by the latest`() {
        var places = ClientPlaces(sentOn: Self.flow(3))
        let (second, third) = (Self.flow(0, at: Self.beside), Self.flow(8, at: Self.elsewhere))
        places.calledAnew(by: second)
        #expect(places.present == Self.flow(3))
        #expect(Self.accepts(places, Self.flow(5, at: Self.beside)))
        places.calledAnew(by: third)
        #expect(Self.accepts(places, third) && !Self.accepts(places, Self.flow(5, at: Self.beside)))
    }

    // MARK: Other sources of answers

    @Test func `a phone of the called user answers from wherever it has registered`() {
        let places = ClientPlaces(sentOn: Self.flow(3))
        #expect(Self.accepts(places, Self.flow(0, .udp, at: Self.elsewhere), by: .callee))
    }

    @Test func `a trusted peer answers from other ports of its address, unless phones have those`() {
        let places = ClientPlaces(sentOn: Self.flow(0, .udp))
        let peer = ClientPlaces.Sender.peer(ClientPlaces.Peer(hasOnePort: false))
        let shared = ClientPlaces.Sender.peer(ClientPlaces.Peer(hasOnePort: true))
        for flow in [Self.flow(0, .udp, at: Self.beside), Self.flow(9, .tcp, at: Self.beside)] {
            #expect(Self.accepts(places, flow, by: peer))
            #expect(!Self.accepts(places, flow, by: shared))
        }
        #expect(Self.accepts(places, Self.flow(9), by: shared))
        #expect(!Self.accepts(places, Self.flow(0, .udp, at: Self.elsewhere), by: peer))
    }

    @Test func `a request over TLS is answered over TLS, by a server whose certificate has its name`() {
        let places = ClientPlaces(sentOn: Self.flow(0, .tls, server: Self.server))
        func peer(_ certified: ServerNumber, _ isCertified: Bool) -> ClientPlaces.Sender {
            .peer(ClientPlaces.Peer(hasOnePort: false, certified: certified, isCertified: isCertified))
        }
        let proved = Self.flow(9, .tls, at: Self.elsewhere)
        #expect(Self.accepts(places, proved, by: peer(Self.server, true)))
        #expect(!Self.accepts(places, proved, by: peer(Self.server, false)))
        #expect(!Self.accepts(places, Self.flow(9, .tls, at: Self.beside), by: peer(Self.server, false)))
        #expect(!Self.accepts(places, Self.flow(9, .tcp), by: peer(Self.server, true)))
        // Server 8 has proved another name than the required one, so only the source address of the response counts.
        #expect(Self.accepts(places, Self.flow(9, .tls, at: Self.beside), by: peer(ServerNumber(8), true)))
        #expect(!Self.accepts(places, proved, by: peer(ServerNumber(8), true)))
    }
}
