"""What is counted: the nouns that may follow a number without changing it, as in "7 apples".

An answer may end in one of these or in a unit (units.UNITS), and in nothing else: "7 sixteenths" and "7 unless" look
like plural nouns as well. The words follow a number at least twice in GSM8K's problems, less the amounts ("dozens") and
what is no noun ("makes", "thus"); names of what mathematics counts are added. A gold may have any other noun, which its
answers may then have, too.
"""

WORDS = """
accessories acorns acres actors administrators adults airplanes albums alligators amulets angles animals antacids
antlers ants apartments appetizers apples apps aprons aquariums armchairs arms arrangements artichokes articles
artifacts artworks athletes attendees audiobooks aunts avocados awards babies backpacks badges bagels baggies bags
baguettes bales balloons balls bananas bandages bands barrels barrettes bars baseballs basketballs baskets batches
bathrooms baths batteries beads beakers beans bears beavers bedbugs bedrooms beds bees beetles beignets belts benches
berries bicycles bids bikes billboards bills binders biographies birdhouses birds biscuits bits blackbirds blankets
blisters blocks blouses blueberries boards boas boats bollards bolts bones bonnets books bottlecaps bottles bouquets
bowls boxes boxwoods boys bracelets braids branches breakfasts breaths bricks bridesmaids brochures broomsticks
brothers brownies bubbles buckets bugs builders buildings bulbs bunches bundles bunnies buns burgers burritos burrs
buses bushels bushes businesses butterflies buttons buyers bytes cabinets cages cakes calls calories camels campers
candies candles canes cannolis cans cantaloupes caps capsules caramels cardinals cards carnations carpenters carpets
carriages carrots cars cartons cases castles caterpillars cats ceilings chairs champions channels chapters characters
charts checks cheerleaders cheesecakes cheetahs chefs cherries chests chickens chicks children chimichangas chipmunks
chips chocolates chores circles citations cities clarinets classes classmates classrooms claws clerks clients
clippings clips cloaks clothes clotheslines clouds clovers cloves clowns clusters coaches coals coats cobras coconuts
coffees coins collectors colleges colors columns combinations comics committees complaints computers cones consonants
contacts containers contracts cookies copies corns cougars coughs counters countries coupons courses cousins cows
crabs crackers crafts cranberries craters crates crayons credits crickets croissants crops crosswalks croutons crows
cucumbers cupcakes cups curlers customers cuttlebones cycles daisies dancers dandelions daughters decks decorations
deer deers deliveries demerits desks desserts devices diagonals diapers diaries digits dimensions dimes dinners dishes
dislikes divisors doctors dogs dolls dolphins dominoes donations donuts doors doses dots doughnuts downloads dragons
drawings dreadnoughts dreams dresses drinks driveways drops drummers drums dryers ducklings ducks dumplings dwarves
earrings ears edges eels eggplants eggs elements elephants elves emails employees emus enemies engines entrees
envelopes episodes erasers essays exams exercises eyes faces factors fairies families fans farmhands farms farthings
feathers feedings females fences ferns fields figurines files filets fillets fingers firecrackers firefighters
fireflies fires fireworks fish fishes flags flagstones flashlights flats flavors fleas flies flights floors flowers
flutes flyers folders foldings followers footballs footprints forks forms foxes frames friends fries frogs fronds
fruits functions galleries games gates geckos geese gems gemstones geraniums gerbils gharials gifts gigabytes gigs
gingerbreads giraffes girls glasses gnomes goals goats goldfish grades graduates grains granddaughters grapes
grasshoppers groups guests guides guitars gumballs guns guppies gusts haircuts hairs halls hamburgers hamsters
handfuls hands handshakes hares hats heads hearts hectares helmets hens hexagons highlighters hikes hits hives holes
homes honeydews hoodies hoots hops horses horseshoes hospitals hotdogs households houses humans hushpuppies huskies
iguanas individuals inhabitants inpatients insects instances instructions instructors instruments integers
intersections intervals invitations islands issues items jackets jaguars jars jeans jellybeans jerseys jewels joggers
jokes jugs juices jumpers jumps kangaroos kernels kettles keyboards keys kids kilobytes kilowatts kindergartners kinds
kitchens kittens kiwis knives knots koalas ladders ladies ladybugs lambs lamps laps laptops lasagnas lattes lawns
layers leaves legos legs leis lemons lens leopards lessons letters levels lightbulbs lighters lilacs lilies limbs
limes lines lions lives lizards llamas loads loaves loggers logs lollipops losses lunches lychees macarons macaroons
machines magazines maggots magnets magpies males mambas managers mangoes mangos marbles marigolds markers marks
marshmallows masks matchboxes matches matchsticks maths matrices mats meals meatballs medals megabits megabytes melons
members men messages mice microphones milkshakes millipedes minks minnows mirrors mistakes models monitors monkeys
monsters motorcycles mountains movies muffins mugs multiples mushrooms nails napkins naps necklaces neighbors nephews
newspapers nickels nieces nights noses notebooks nougats novels nuggets nurses nuts objects olives omelets onions
oranges orchards orchids orcs orders outcomes outfits oxen oysters packages packets packs pages pails paintings
palindromes pallets pamphlets pancakes pandas panels pans pansies pants papayas paperclips papers paragraphs parents
parrots parsecs parsnips participants parts passengers pastries patches paths patients patrons pauses paws paychecks
payments peaches peanuts pearls pears pebbles pencils penguins pennies pens pentagons people peppers periods permits
permutations persons pesetas petals pets petunias pfennigs phones photographs photos phrases pianists pickles pictures
pieces pies pigeons piglets pigs piles pills pineapples pinecones pines pins pints pitches pixels pizzas planes planks
plants plates players playlists plums pockets pods pointers points pollywogs polygons polynomials pomegranates pomelos
poodles pools popsicles portions possibilities postcards posters posts potatoes pots pouches presents pretzels primes
printers prints problems products programs puffs pumpkins pumps punches pupils puppies pups pushups puzzles pythons
quarts questions quiches quilts quizzes rabbits racers races racquets radishes raisins raspberries rats razors reams
records recoveries rectangles reflections refuels regions relatives repeats reports residents restaurants rhinestones
rhinos ribbons riddles riders rides ridges rings robes robins robots rocks rolls roofs roommates rooms roosters roots
roses rotations rounds routes rows rubies ruffles rugs rungs runners sacks sales samples sandcastles sandwiches
saplings sapphires sauces sausages savings scallops scarves schools scissors scoops scouts screens screws seagulls
seahorses seashells seasons seats sections sectors seedlings seeds segments semesters seniors sentences sequences
sequins servings sessions sets settings shares sharks sheep sheets shells shelves shingles ships shirts shoes shorts
shots showers siblings sides signatures singers sips sisters sites situps skeins skeletons skirts slacks sleeves
slices smoothies smores snacks snails snakes snapdragons sneakers snowballs snowflakes soaps socks sodas sofas
soldiers solutions songs sonnets sons sours spaces sparklers spears species spiders spiderwebs spokes spools spoonfuls
spoons sports spots squads squats squirrels stables stacks stairs stalks stamps stanzas staplers starfishes stars
states stations statues steaks stems steps stickers sticks stingrays stitches stones stools stoplights stores stories
strands strawberries straws streetlights streets strings stripes strips strokes students stuffies subjects subs
subscribers subscriptions subsections subsets substitutions suckers suggestions suitcases suits sundaes sunflowers
surfers swallows swans sweaters sweatshirts sweets systems tables tablespoons tabs tacks tadpoles tails tangerines
tanks taps tarantulas tasks tattoos taxis teachers teacups teams tears teaspoons teddies teenagers tees teeth
televisions tents terms terriers teslas tests tetras textbooks texts thermoses thorns thumbtacks tickets ticks tigers
tiles tins tires tissues toads toddlers toenails toes tokens tomatoes tonnes tons tools toothbrushes toothpicks
toppings tops touchdowns tourists towels towers toys tractors trains trays treats trees triangles tricycles trikes
trips trolls trombones trophies trouts truckloads trucks truffles trumpets tubes tubs tulips tumblers turkeys turtles
twigs types umbrellas uncles unicorns uniforms utensils vacations vaccines vampires vans vases values vegetables
vehicles vents vertices vets vibrations videos viewers vines visitors visits vlogs volunteers voters votes vowels
waiters walls walnuts wands washers washes watches watermelons ways weasels websites wedges weeds weekdays werewolves
whales wheels whiskers whistlers whiteboards widgets wights wigs windows wings wolves wombats women words workdays
workers worksheets worms yogurts yolks zebras zeros zits zombies
"""
MATERIAL_WORDS = """
homework practice protein soup training vacation work
bread butter candy cheese chocolate coffee flour food fruit gum juice land meat milk money oil paint paper rice sand
soda sugar tea water
"""
# What a number may be called before an equals sign, and what may describe that: "Total area = 73".
QUANTITY_WORDS = """
age angle area average balance capacity change circumference cost count depth diameter difference discount distance
earnings expenses fare height hypotenuse income interest length loss maximum mean median minimum mode number perimeter
price probability product profit quotient radius range ratio remainder result revenue salary savings slope solution
speed sum surface tax temperature time total value volume wage weight width
"""
DESCRIBING_WORDS = "the final total new average whole surface required remaining overall combined"
COUNTED = frozenset(WORDS.split())
MATERIALS = frozenset(MATERIAL_WORDS.split())  # after "of": 7 cups of flour
QUANTITIES = frozenset(QUANTITY_WORDS.split())
DESCRIBING_QUANTITIES = frozenset(DESCRIBING_WORDS.split())
