package import Reactor

/// What carries the requests of one group: there is one over HTTP/2, by nghttp2, and one over HTTP/1.1, by libcurl.
///
/// It knows servers and connections. Who waits for an answer, how long, and how many do, is known above.
package protocol HTTPTransport: AnyObject {
    init(on loop: EventLoop, limits: HTTPSession.Limits, names: HostNames) throws(HTTPClientError)

    /// Takes the request, or leaves it to the next transport. What comes of it is told by ``HTTPExchange/finish(_:)``,
    /// not from within.
    func send(_ exchange: HTTPExchange) throws(HTTPClientError) -> Bool

    /// Gives up the request, since nobody waits for the answer any more.
    func takeBack(_ exchange: HTTPExchange)

    /// Keeps a connection for requests like this one, from now on.
    func keepWarm(_ request: HTTPClientRequest)

    /// Closes all connections, for good.
    ///
    /// - Returns: the requests that were under way.
    func close() -> [HTTPExchange]
}
